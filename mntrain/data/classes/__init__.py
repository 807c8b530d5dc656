"""Classes of examples: which are kept, how many each has, and how often an epoch takes them."""
