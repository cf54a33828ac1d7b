"""What messages tell of interactions and of users, by what the wire carries."""
