"""Parse and print names, numbers and JSON that come from outside."""
