"""Run batches on engine instances, each in a thread, under a watchdog."""
