"""Audited papers: each folder holds one paper's systems, privacy claims, and numbers that the paper
prints.
"""
