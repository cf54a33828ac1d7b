"""Federated recommenders under audit, with their randomizers, data sets and transcripts."""
