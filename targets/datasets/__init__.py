"""Data sets of interactions, with one loader per file."""
