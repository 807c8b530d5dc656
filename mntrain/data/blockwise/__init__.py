"""Passes over arrays that may be larger than memory."""
