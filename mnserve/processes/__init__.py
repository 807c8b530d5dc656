"""Processes of one server: a supervisor, front ends that take calls in, and engine processes that run the models."""
