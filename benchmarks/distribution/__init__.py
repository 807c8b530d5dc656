"""Wheel and source archive of this project, installed where nothing else is."""
