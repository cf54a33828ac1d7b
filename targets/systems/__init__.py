"""Base classes of the systems under audit: the target's protocol and the training loop."""
