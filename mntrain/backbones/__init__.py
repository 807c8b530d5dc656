"""Define feature extractors and their configuration."""
