"""Privacy claims of FedGNNRec, a released re-implementation of FedGNN.

Clients send noisy gradients to a server, and item codes to a third party.
"""
