"""Audits of a user's own system: from Python functions, from recorded uploads, or from a
Flower app.
"""
