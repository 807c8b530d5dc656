"""Stored features of a frozen network: written once, memory-mapped by everything that learns from them."""
