"""FedGNNRec, a released re-implementation of FedGNN: its privacy claims.

Clients send noisy gradients to a server, and item codes to a third party.
"""
