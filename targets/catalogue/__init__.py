"""The catalogue of claims: what five papers say of privacy, statement by statement, as data."""
