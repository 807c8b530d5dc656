"""Fields of a recipe: their list, kinds and meanings, how words are read into them, and what a wrong word may mean."""
