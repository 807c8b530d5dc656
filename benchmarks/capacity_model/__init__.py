"""Capacity of a server from measured costs: a discrete-event simulation, its calibration, and its checks."""
