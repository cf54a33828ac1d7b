"""Li et al., PVLDB 2021: matrix factorization in three federated settings."""
