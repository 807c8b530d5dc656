"""Few-shot learning: classes that no network was trained on, told apart from a few images of each."""
