"""Decide which callers may connect and call: TLS, tokens, authorization, limits of connections and rates."""
