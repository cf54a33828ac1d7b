"""Base classes of the systems under audit: the protocol of a target, and the training loop."""
