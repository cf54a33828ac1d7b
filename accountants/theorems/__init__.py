"""Theorems on privacy bounds: conversions between scopes, adjacency, sampling and collusion."""
