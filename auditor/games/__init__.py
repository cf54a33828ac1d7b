"""Games: an attack's guesses held against the truth that it never saw."""
