"""Audits of a user's own system, which is given as Python functions, recorded uploads, or a Flower
app.
"""
