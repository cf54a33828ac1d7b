"""FedRec and its protection APM (Zhang et al.): systems, privacy claims, and numbers that the paper
prints.

The paper infers users' attributes from the uploads of a federated recommender, and protects the
uploads by noise (APM).
"""
