"""The papers, a folder each: systems, claims and printed numbers."""
