"""Heads on features of frozen networks, compared."""
