"""Claims judged by all bounds that speak of them."""
