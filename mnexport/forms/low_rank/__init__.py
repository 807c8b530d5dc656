"""Approximate the inner update in few directions."""
