"""Commands of the command-line program ``auditor``, with one module per command."""
