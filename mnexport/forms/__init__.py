"""Turn trained models into static modules."""
