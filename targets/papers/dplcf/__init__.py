"""Gao et al., SIGIR 2020: flipped bits, item similarity, local recommendation."""
