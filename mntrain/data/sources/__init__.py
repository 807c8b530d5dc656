"""Load the data of each registered source: a module ``NAME`` with a function ``load`` for the source ``NAME``."""
