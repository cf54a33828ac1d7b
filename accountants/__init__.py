"""Definitions of privacy statements (scope, bound, claim), and the accountants that prove upper
bounds on epsilon.
"""
