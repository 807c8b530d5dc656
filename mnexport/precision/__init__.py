"""Lower a checked export to 16 or 8 bits, and measure the loss of accuracy."""
