"""The claims ledger: what five papers say of privacy, statement by statement, as data."""
