"""``python -m fedrec_auditor`` is the ``auditor`` command."""

from fedrec_auditor.auditor.commands.command_line import main

if __name__ == "__main__":
    main()
