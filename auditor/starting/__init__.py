"""Files that ``auditor new`` begins: they pass as they stand."""
