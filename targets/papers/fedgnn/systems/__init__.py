"""The systems of the paper."""
