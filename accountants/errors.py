"""The one exception family: what was expected, what came, and the remedy."""


class AuditError(Exception):
    """The audit cannot go on; the message says what was expected, what came, and the remedy."""


class InputError(AuditError, ValueError):
    """Something the user gave is wrong: a name, a path, a number, a file. Exit code 2.

    >>> from fedrec_auditor.accountants.statements import check_delta
    >>> try:
    ...     check_delta(2.0)
    ... except InputError as error:
    ...     print(error)
    Expected delta in [0, 1), got delta=2.0. Give 0 for pure differential privacy.
    """


class IncompleteError(AuditError, RuntimeError):
    """The audit could not be completed for a reason outside the user's input. Exit code 3."""
