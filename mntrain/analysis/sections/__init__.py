"""Sections of a report, one a file."""
