"""What the systems of all papers share."""
