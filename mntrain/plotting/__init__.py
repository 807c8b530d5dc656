"""Style of figures."""
