"""Runs the command ``auditor``, also as ``python -m fedrec_auditor``."""

import os
import signal
from typing import Any, NoReturn


def _stop(*_: Any) -> NoReturn:
    os.write(2, b"auditor: Interrupted.\n")
    os._exit(3)


def main() -> None:
    """Runs the command line; Ctrl-C or a request to terminate ends it with one line and code 3.

    During the imports, a signal ends the process at once, because imported libraries may not be
    prepared for an exception. Later, a signal raises KeyboardInterrupt.
    """
    endings = [
        each
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(each) is not signal.SIG_IGN  # a signal that nohup ignores stays ignored
    ]
    for each in endings:
        signal.signal(each, _stop)
    from fedrec_auditor.auditor.commands import command_line

    for each in endings:
        signal.signal(each, signal.default_int_handler)
    command_line.main()


if __name__ == "__main__":
    main()
