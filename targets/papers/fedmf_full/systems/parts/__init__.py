"""What both systems train."""
