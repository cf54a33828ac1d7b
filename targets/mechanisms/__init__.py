"""The randomizers that clients apply to what they upload, one a file."""
