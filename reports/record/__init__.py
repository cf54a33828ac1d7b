"""The records of audits and sweeps: rows, comparison, severity, and files."""
