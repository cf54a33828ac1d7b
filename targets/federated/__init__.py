"""Federated systems composed of a learner, a protection and a route, with one training loop."""
