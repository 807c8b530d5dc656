"""Parse command lines; each command is a module with ``add`` and ``run``."""
