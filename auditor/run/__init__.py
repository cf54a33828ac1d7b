"""Execution of audits: tasks, their resources, and stored results."""
