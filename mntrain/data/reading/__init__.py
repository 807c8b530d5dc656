"""Read images, labels and columns as every source does."""
