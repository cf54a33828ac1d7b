"""Privacy loss distributions: pairs of distributions, their composition, their curves."""
