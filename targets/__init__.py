"""Federated recommenders under audit, with their randomizers, data and transcripts."""
