"""What a paper declares: its entries, its printed numbers, its demonstrations, and their reader."""

CLAIMS, PRINTED = "claims.toml", "printed.toml"
"""The files of a paper; a package that has the first is one."""
