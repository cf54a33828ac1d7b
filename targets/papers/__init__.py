"""The papers, a folder each: systems, claims, printed numbers, demonstrations."""
