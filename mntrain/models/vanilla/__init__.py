"""Vanilla networks without adaptation, the baselines."""
