"""Replicas on a Ray cluster: a cluster of two nodes on this machine, and the load on it."""
