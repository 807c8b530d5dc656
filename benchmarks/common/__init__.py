"""What several of the scripts need."""
