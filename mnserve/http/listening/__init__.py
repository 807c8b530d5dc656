"""Listen on the HTTP port: sockets, TLS, and connections within limits."""
