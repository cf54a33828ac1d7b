"""A released graph recommender of parties that hold items, and what it says of privacy."""
