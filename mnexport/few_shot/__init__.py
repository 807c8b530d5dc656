"""Export of a network as a few-shot classifier: a graph that takes support images, labels and images to classify."""
