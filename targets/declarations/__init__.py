"""Declarations of papers in TOML files: statements, printed numbers and systems."""

CLAIMS, PRINTED, SYSTEMS = "claims.toml", "printed.toml", "systems.toml"
"""Files of a paper's package; a package is a paper if it has the first one."""
