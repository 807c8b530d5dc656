"""What the data of a recipe holds: a text for the terminal, and a page with images and columns."""
