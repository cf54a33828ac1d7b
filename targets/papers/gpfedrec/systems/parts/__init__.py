"""What a device trains, and what it sends."""
