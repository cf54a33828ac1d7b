"""The record of an audit and of a sweep: rows, comparison, severity and files."""
