"""A released re-implementation of FedGNN: clients' messages, their receivers, and its claims."""
