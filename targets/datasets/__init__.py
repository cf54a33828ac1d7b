"""Interaction data sets, one loader a file."""
