"""The system of the repository."""
