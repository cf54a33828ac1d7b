"""Base classes of mechanisms, exact samplers, and the variances of a secure aggregation."""
