"""FMF-LDP (Minto et al., RecSys 2021): systems, privacy claims, and numbers that the paper prints.

Clients of a federated matrix factorization for implicit feedback report single randomized entries
of their gradients.
"""
