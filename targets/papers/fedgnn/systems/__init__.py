"""Systems of the FedGNN papers: FedGNN as described, and FedPerGNN as released."""
