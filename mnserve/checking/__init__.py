"""Examine what a server would find here: this machine, execution providers, and models of a repository."""
