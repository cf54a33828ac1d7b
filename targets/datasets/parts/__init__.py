"""Readers of tables and archives that several loaders of data sets use."""
