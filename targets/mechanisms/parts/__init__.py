"""Base classes of mechanisms, exact samplers, and the noise variances of a secure aggregation."""
