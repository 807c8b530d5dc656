"""Copy models from an object store into a local, verified cache, and follow the store."""
