"""Readers of table files and archives, shared by the loaders of data sets."""
