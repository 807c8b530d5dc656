"""Time models against each other in alternating rounds: the work of ``mnserve bench``."""
