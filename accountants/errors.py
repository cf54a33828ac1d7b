"""Exceptions of the package."""


class AuditError(Exception):
    """Base class of the package's errors, raised when an audit cannot continue.

    Its message states the expected value, the actual value and a remedy.
    """


class InputError(AuditError, ValueError):
    """Error for invalid user input: a name, a path, a number or a file. Commands then exit with
    code 2.

    >>> from fedrec_auditor.accountants.statements import check_delta
    >>> try:
    ...     check_delta(2.0)
    ... except InputError as error:
    ...     print(error)
    Expected delta in [0, 1), got delta=2.0. Give 0 for pure differential privacy.
    """


class IncompleteError(AuditError, RuntimeError):
    """Error for an audit that stops before its conclusion, for a reason other than invalid user
    input. Commands then exit with code 3.
    """
