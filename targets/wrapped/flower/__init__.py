"""Apps of Flower: their clients, mods and strategies as parts of a wrapped system."""
