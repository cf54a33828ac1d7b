"""FederatedScope: the federated matrix factorization of its released code."""
