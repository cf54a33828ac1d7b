"""Judgement of claims by all upper and lower bounds that apply to them."""
