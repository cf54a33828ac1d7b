"""The papers, one folder each: systems, claims and printed numbers."""
