"""The record of an audit and of a sweep: rows, what is judged of them, files."""
