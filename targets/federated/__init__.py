"""Federated recommenders composed of a learner (model), a protection of uploads and a route to the
server, with one training loop.
"""
