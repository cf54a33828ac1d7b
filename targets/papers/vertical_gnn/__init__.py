"""VerticalGNN (Mai and Pang, ICML 2023), as released: its privacy claims.

Parties that hold different items train a graph recommender together.
"""
