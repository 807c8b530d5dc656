"""Predict the classes of image files with a model: the work of ``mnserve predict``."""
