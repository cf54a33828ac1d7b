"""Distributions of the privacy loss ln(P/Q): dominating pairs of distributions (P, Q), their
composition, and their privacy curves.
"""
