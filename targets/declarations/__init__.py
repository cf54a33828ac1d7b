"""Contents of a paper's TOML files: its privacy statements, printed numbers and systems."""

# Names of the TOML files in a paper's package. A package describes a paper if it has the first.
CLAIMS_FILE, PRINTED_FILE, SYSTEMS_FILE = "claims.toml", "printed.toml", "systems.toml"
