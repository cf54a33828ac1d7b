"""The exact output distribution of a Python randomizer, traced from its code."""
