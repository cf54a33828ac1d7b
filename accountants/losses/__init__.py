"""Privacy loss distributions: dominating pairs of distributions, their composition and their
privacy curves.
"""
