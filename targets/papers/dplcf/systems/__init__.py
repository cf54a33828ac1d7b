"""Systems of the paper."""
