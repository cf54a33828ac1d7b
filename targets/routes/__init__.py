"""How uploads reach the server: directly, through a shuffler, or summed."""
