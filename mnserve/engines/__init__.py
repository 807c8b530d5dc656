"""Engines run a model file on batches of arrays; ``base`` has the interface they share."""
