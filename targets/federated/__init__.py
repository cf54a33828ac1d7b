"""Federated systems composed of a learner, a protection and a route, trained by one loop."""
