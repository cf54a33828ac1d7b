"""What its devices do."""
