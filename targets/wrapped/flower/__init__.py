"""Flower apps as wrapped systems: their clients, mods and strategies."""
