"""Cost of neural similarity over the ordinary network."""
