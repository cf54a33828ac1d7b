"""Recordings of uploads: their format, their writer, and the target that reads them."""
