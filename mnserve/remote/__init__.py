"""Models whose engines run in other processes, as calls see them in a front end."""
