"""Reproductions of the numbers that papers print."""
