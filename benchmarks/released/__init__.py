"""Audits of other authors' released code, next to our reimplementation of it."""
