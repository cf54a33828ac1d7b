"""Contents of a paper's TOML files: its privacy statements, printed numbers and systems."""

# Files in a paper's package. A package is a paper if it has the first of these files.
CLAIMS, PRINTED, SYSTEMS_FILE = "claims.toml", "printed.toml", "systems.toml"
