"""Judgement of claims: plans, games, estimators, verification and the command line."""
