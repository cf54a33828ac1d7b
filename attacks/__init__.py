"""Attacks: adversaries that infer users' secrets from a view, the messages that a vantage shows."""
