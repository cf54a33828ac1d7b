"""FedGCDR (Yang et al., NeurIPS 2024), a released cross-domain recommender: its privacy claims.

Domains pass on noisy user embeddings, and clients send lists of items within a domain.
"""
