"""Games are experiments in which an adversary guesses a hidden truth.

A game scores an attack on a federated training, or bounds epsilon from below.
"""
