"""Heads on features of frozen networks: accuracy, time, memory and price of a graph."""
