"""Heads on frozen features: accuracy and price."""
