"""Audited papers: each folder holds one paper's systems, privacy claims and printed numbers."""
