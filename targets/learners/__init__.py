"""Base recommenders: what a device learns, whatever protects its upload and carries it."""
