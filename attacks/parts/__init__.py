"""Parts that several attacks and readers share."""
