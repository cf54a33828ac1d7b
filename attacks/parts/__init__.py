"""Functions and classes that several attacks and readers share."""
