"""Attacks: adversaries that infer users' secrets from the messages and parameters they see."""
