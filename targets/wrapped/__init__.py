"""Systems of others: a client as a callable, its messages, and how it is run."""
