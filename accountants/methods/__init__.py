"""Accountants: each reads an event and proves an upper bound on epsilon."""
