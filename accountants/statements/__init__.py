"""What is said of privacy: bounds and claims, each with its scope."""
