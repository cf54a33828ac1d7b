"""Attacks: inferences of an adversary about users from a view."""
