"""The console: one page for a server, and the calls that it makes."""
