"""What demonstrations on federated matrix factorization share: many runs at once."""
