"""Sub-categories: data with coarse labels, and the classes that nearest neighbors induce."""
