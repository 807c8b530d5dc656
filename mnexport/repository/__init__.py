"""Write model repositories: layout, config.pbtxt, versions, publishing."""
