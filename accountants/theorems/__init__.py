"""Theorems that convert privacy bounds: between scopes, between adjacencies, for sampling and for
collusion.
"""
