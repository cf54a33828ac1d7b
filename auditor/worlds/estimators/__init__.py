"""Estimators, which draw outputs of two worlds and return a lower bound on epsilon."""
