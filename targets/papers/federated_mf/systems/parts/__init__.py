"""Code that several systems of the federated-MF paper share."""
