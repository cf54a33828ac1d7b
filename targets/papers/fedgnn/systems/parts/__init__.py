"""What the neighbours share."""
