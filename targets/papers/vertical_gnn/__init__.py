"""Privacy claims of VerticalGNN (Mai and Pang, ICML 2023), for its released code.

Parties that hold different items train a graph recommender together.
"""
