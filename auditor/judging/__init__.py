"""Judgement of claims: compares a claimed epsilon with all upper and lower bounds that apply to the
claim.
"""
