"""FederatedScope's released federated matrix factorization, and its privacy claims."""
