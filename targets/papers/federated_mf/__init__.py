"""Federated matrix factorization (Li et al., PVLDB 2022): systems, claims, and printed numbers.

The paper factorizes a rating matrix in three settings: parties that hold different items
(vertical), different users (horizontal), or one user each (local).
"""
