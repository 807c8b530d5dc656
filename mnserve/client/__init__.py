"""Call a server: channels, TLS, tokens, images, errors as exceptions."""
