"""What both systems do."""
