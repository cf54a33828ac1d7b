"""Apps of the framework Flower under audit: their clients, mods and server strategies."""
