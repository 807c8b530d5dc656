"""Batches of requests on engine instances, each in a thread of its own, under limits of time."""
