"""Accountants: classes that prove an upper bound on the epsilon of an accounting event (a
description of composed mechanisms).
"""
