"""Estimators: worlds to draw from in, a lower bound on epsilon out."""
