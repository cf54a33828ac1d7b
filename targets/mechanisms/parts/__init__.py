"""Base classes and samplers that several mechanisms share."""
