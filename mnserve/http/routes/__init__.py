"""Routes of the protocol over HTTP, a file for each kind of call."""
