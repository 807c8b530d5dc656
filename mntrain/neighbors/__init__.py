"""Find the training images nearest to dictionary entries, and store them in the artifact."""
