"""Minto et al., RecSys 2021: implicit feedback, one-coordinate reports."""
