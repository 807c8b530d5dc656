"""Run model files on batches of arrays; ``base`` has the interface that all engines share."""
