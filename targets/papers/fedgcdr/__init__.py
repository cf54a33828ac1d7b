"""A released cross-domain recommender: vectors between domains, lists within, and its claims."""
