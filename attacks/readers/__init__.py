"""Readers: evidence on interactions and users, by kind of message."""
