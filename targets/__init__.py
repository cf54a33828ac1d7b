"""What runs: federated recommenders, their randomizers, their data, and the transcript they leave."""
