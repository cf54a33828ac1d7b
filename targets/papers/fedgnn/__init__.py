"""FedGNN (Wu et al., arXiv 2021) and FedPerGNN (Nature Communications 2022): systems and claims.

Clients train a recommender on graphs of their rated items, send noisy gradients, and find users
with the same items through encrypted item codes.
"""
