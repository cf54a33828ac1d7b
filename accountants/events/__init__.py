"""Accounting events: descriptions of composed mechanisms, by event classes of the library
dp-accounting and by own classes.
"""
