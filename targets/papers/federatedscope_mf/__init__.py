"""Privacy claims of the federated matrix factorization that FederatedScope released."""
