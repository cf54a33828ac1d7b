"""Sweeps: audits over a grid of settings with several trainings each, and searches for a noise
level.
"""
