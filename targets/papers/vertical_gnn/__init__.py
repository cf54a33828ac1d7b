"""A released graph recommender of parties that hold items, and its privacy claims."""
