"""Sweeps: audits over a grid of settings, with several trainings of each combination."""
