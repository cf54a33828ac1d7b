"""Readers: turn messages of one form into log-likelihood ratios of users' interactions."""
