"""The systems of the repository."""
