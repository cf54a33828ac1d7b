"""Base classes and exact samplers that several mechanisms share."""
