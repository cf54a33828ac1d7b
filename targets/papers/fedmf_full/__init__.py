"""Chai et al., IEEE Intelligent Systems 2021: gradients under homomorphic encryption, a control."""
