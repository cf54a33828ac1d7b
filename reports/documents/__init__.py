"""What is said, once for every writer: documents, their tables and drawings."""
