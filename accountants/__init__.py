"""The vocabulary of privacy statements, and the accountants that prove upper bounds."""
