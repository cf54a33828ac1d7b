"""Privacy claims of FedGCDR (Yang et al., NeurIPS 2024), for its released code.

FedGCDR is a cross-domain recommender: domains pass on noisy user embeddings, and clients send lists
of items within a domain.
"""
