"""Li et al., PVLDB 2022: matrix factorization in three federated settings."""
