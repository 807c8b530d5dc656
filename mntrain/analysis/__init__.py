"""Analyse a trained run: report page and animation."""
