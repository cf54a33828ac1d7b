"""The system of this repository."""
