"""What an adversary infers from a view."""
