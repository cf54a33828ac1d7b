"""Data sets of interactions between users and items, with one loader per module."""
