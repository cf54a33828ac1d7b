"""The system of this paper."""
