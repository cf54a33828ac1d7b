"""Data sets of interactions, one loader per file."""
