"""Sweeps: one plan over a grid of settings, several trainings of each, and what it says."""
