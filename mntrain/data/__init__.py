"""Data in memory: load, split, augment on the device, and batch."""
