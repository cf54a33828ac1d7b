"""What reproductions share."""
