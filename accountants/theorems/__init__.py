"""Theorems that carry bounds to other scopes: conversions, sampling, shuffling."""
