"""MAXL: auxiliary labels learned by a second network."""
