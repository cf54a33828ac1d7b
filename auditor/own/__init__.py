"""Systems of one's own: wrapped, recorded, on Flower."""
