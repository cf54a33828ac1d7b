"""Readers of tables and archives that the loaders of data sets share."""
