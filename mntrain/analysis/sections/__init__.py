"""Draw the sections of a report, one a file."""
