"""The content of reports, the same for every writer: documents, tables and drawings."""
