"""Judgement of claims by all bounds that apply to them."""
