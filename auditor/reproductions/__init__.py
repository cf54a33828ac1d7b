"""Reproductions of the figures that papers print."""
