"""What runs: federated recommenders, their randomizers, their data, and their transcripts."""
