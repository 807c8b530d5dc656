"""Choose batch size, delay, threads and instances for a bound on latency: the work of ``mnserve tune``."""
