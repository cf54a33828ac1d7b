"""Execution of audits: their tasks, the workers that run them, and stored results."""
