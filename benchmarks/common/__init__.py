"""Code that several scripts share."""
