"""Code that both systems of the FedGNN papers share."""
