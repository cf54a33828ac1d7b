"""Accounting events: trees of mechanisms, made of dp-accounting's event classes and of our own."""
