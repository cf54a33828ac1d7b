"""DPLCF (Gao et al., SIGIR 2020): systems, privacy claims and printed numbers.

Clients upload randomly flipped interaction bits once. The server estimates item similarities from
the flipped bits, and each device computes its own recommendations.
"""
