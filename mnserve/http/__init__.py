"""Answer the calls of the protocol over HTTP/1.1, as JSON with or without binary tensors."""
