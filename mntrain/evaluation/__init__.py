"""Evaluate artifacts: on the data of their run, and on labelled data that they have never seen."""
