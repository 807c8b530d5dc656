"""Draw figures in one style."""
