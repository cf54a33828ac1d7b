"""Reproductions: measurements of the numbers that papers print."""
