"""Checks that the caller has weighed and lets pass."""

from __future__ import annotations

from collections.abc import Collection

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification.verification import Check, Verification


def unwaived(found: Verification, allow: Collection[str]) -> tuple[Check, ...]:
    """The checks that failed and are not named in ``allow``; InputError for an unknown name.

    A verdict cannot be waived.
    """
    known = [check.name for check in found.checks]
    for name in allow:
        if name not in known:
            raise InputError(
                f"Expected the name of a check to allow, one of {', '.join(known) or 'none'}, "
                f"got {name!r}. Mend the name."
            )
    return tuple(check for check in found.faults if check.name not in allow)
