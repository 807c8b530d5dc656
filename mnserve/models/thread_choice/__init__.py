"""Choice of a model's threads and instances on CPUs, by measuring while it is loaded."""
