"""Federated recommenders written by somebody else, given as functions of a client and a server."""
