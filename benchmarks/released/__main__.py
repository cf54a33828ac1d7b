"""Audits of original released code: ``python -m benchmarks.released NAME --code DIR``.

DIR is a checkout of the repository at the named commit; its files are run and not copied. Without
it nothing runs, and a line states the reason.

- For a client, the output has the results of the local game (a test on one message) and of attacks.
- For a mechanism, it has the measured values of the released code and of our reimplementation.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from fedrec_auditor.accountants.errors import InputError

NAMES = tuple(
    path.stem
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if "\nCODE = Checkout(" in path.read_text(encoding="utf-8")
)
"""Modules of this folder that audit the code of a repository."""


def main(arguments: list[str] | None = None) -> int:
    """Prints the results, or the reason why nothing was run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.released", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--code", type=Path, metavar="DIR", help="a checkout of the repository")
    given = parser.parse_args(arguments)
    module = importlib.import_module(f"benchmarks.released.{given.name}")
    if given.code is None:
        code = module.CODE
        print(
            f"Not run: {code.repository} at {code.commit} is not part of this repository. Give "
            "--code DIR."
        )
        return 0
    try:
        module.CODE.check(given.code)
    except InputError as error:
        parser.error(str(error))
    for line in module.audit(given.code):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
