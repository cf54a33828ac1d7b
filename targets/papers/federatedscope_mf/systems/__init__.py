"""Its two systems with noise."""
