"""What adaptation does to a trained model, and what its neighbors show."""
