"""Measurements of a server under callers that it has to refuse."""
