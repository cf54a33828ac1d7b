"""Sweeps: one plan over a grid of settings with several trainings each, and searches for noise."""
