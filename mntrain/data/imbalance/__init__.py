"""Long-tailed training splits: how many examples each class keeps, and which ones."""
