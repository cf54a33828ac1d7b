"""Federated recommenders whose client and server functions somebody else wrote."""
