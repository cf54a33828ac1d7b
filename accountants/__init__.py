"""What is owed: the vocabulary of privacy statements, and the accountants that prove bounds."""
