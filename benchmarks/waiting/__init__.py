"""What the moment gives that an idle engine waits: networks of any cost, and callers who ask again at once."""
