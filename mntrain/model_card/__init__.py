"""Model cards: a page in Markdown that a hub shows for a model."""
