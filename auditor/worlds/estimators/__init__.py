"""Estimators, which draw outputs of two neighbouring inputs and return a lower bound on epsilon."""
