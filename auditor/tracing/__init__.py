"""Traces the code of a Python randomizer to compute its exact output distribution and epsilon."""
