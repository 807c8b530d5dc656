"""Export metrics, logs and traces."""
