"""Error of the tracer."""


class TraceError(Exception):
    """A traced piece of work did not do what it should; the message says what happened."""
