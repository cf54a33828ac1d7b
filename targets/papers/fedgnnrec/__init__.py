"""A released re-implementation of FedGNN: what clients send, to whom, and what is said of it."""
