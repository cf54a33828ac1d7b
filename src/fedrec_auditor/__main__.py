"""Runs the ``auditor`` command as ``python -m fedrec_auditor``."""

from fedrec_auditor.auditor.commands.command_line import main

if __name__ == "__main__":
    main()
