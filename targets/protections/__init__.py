"""What a device does to its upload before it leaves: nothing, clipping, noise."""
