"""Released code itself, audited: ``python -m benchmarks.released NAME --code DIR``.

DIR is a checkout of the repository, at the commit that is named; its files are run, none is copied.
Without it nothing is run, and a line says why. Printed is, of what a device sends, what the local
game shows of one message and what attacks read; of mechanisms what is measured of them before the
same of what is written anew here: the mechanism of an entry, or the row of found-in-the-wild.
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
"""The modules of this folder with the code of a repository."""


def main(arguments: list[str] | None = None) -> int:
    """Prints the figures, or why nothing was run."""
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
