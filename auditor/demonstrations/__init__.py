"""Demonstrations: violated claims shown on the target itself, each beside a control."""
