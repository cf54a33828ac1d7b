"""What a ratio of probabilities cannot see: one kind of fault a module."""
