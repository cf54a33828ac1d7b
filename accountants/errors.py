"""Exceptions of the package; messages state the expected value, the actual one and a remedy."""


class AuditError(Exception):
    """The audit cannot continue; the message states expectation, actual value and remedy."""


class InputError(AuditError, ValueError):
    """An invalid input of the user: a name, a path, a number or a file. Exit code 2.

    >>> from fedrec_auditor.accountants.statements import check_delta
    >>> try:
    ...     check_delta(2.0)
    ... except InputError as error:
    ...     print(error)
    Expected delta in [0, 1), got delta=2.0. Give 0 for pure differential privacy.
    """


class IncompleteError(AuditError, RuntimeError):
    """The audit could not be completed for a reason outside the user's input. Exit code 3."""
