"""Turn bodies of requests into messages of the protocol, and messages into answers."""
