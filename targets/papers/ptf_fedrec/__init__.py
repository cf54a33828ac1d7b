"""Privacy claims of PTF-FedRec (Yuan et al., ICDE 2024), for its released code.

Clients send lists of items with predicted scores instead of a model.
"""
