"""Artifacts and model repositories on the Hugging Face hub, or in another folder."""
