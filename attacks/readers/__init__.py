"""Readers: each turns one kind of message into evidence on interactions and users."""
