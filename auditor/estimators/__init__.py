"""Estimators: labelled scores in, a lower bound on epsilon out."""
