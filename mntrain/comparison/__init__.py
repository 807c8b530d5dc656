"""Train and compare variants over seeds."""
