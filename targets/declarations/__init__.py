"""Declarations of a paper: its entries, its printed numbers, and their reader."""

CLAIMS, PRINTED, SYSTEMS = "claims.toml", "printed.toml", "systems.toml"
"""The files of a paper; a package that has the first is one."""
