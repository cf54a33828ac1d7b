"""Systems of the federated-MF paper: vertical, horizontal, local and central."""
