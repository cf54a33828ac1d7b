"""Code that several attacks and readers of messages share."""
