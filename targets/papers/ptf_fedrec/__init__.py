"""PTF-FedRec (Yuan et al., ICDE 2024), as released: its privacy claims.

Clients send lists of items with predicted scores instead of a model.
"""
