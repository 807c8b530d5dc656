"""Methods that make a head of stored features."""
