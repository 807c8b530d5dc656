"""Page about heads on features of a frozen network."""
