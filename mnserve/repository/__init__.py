"""Read model repositories: versions, config.pbtxt, verified files."""
