"""Execution of audits: the tasks of an audit, the workers that run them, and the storage of
results.
"""
