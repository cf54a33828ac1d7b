"""Base classes of the systems under audit: the interface that each system implements, and the
training loop.
"""
