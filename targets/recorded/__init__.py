"""Recordings of uploads: their format, how they are written, and how they are read in pieces."""
