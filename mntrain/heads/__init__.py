"""Classifiers on the features of a frozen network: a stage from features to a linear or adaptive head."""
