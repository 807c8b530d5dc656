"""Dynamic batching: a queue of requests with priorities and limits, and the batches that form of it."""
