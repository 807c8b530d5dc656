"""Replicas of the server on a Ray cluster, by Ray Serve."""
