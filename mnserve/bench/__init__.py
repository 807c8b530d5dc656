"""Interleaved A/B timing of models: what ``mnserve bench`` runs, measures and reports."""
