"""Batch size, delay, threads and instances for a bound on latency: what ``mnserve tune`` measures and writes."""
