"""Parse the command line and print the report."""
