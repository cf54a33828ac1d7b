"""The command line ``auditor``, with one module per command."""
