"""The output formats of documents, pages and records."""
