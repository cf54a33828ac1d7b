"""Plugin for pytest: the fixture ``assert_ldp``, and command-line options for its defaults.

Once this package is installed, pytest loads the plugin in every project. To keep that fast, only
pytest is imported at module level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fedrec_auditor.auditor.verification import Verification

# pytest rewrites the asserts of the contracts, so that failures show the compared values.
for _contract in ("mechanisms", "targets"):
    pytest.register_assert_rewrite(f"fedrec_auditor.auditor.testing.{_contract}")

_OPTIONS = {
    "samples": (int, "Draws per input of assert_ldp, unless the test sets them."),
    "confidence": (float, "Confidence of assert_ldp, unless the test sets it."),
    "seed": (int, "Seed of assert_ldp, unless the test sets it."),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options --ldp-samples, --ldp-confidence and --ldp-seed to pytest."""
    group = parser.getgroup("ldp", "local differential privacy")
    for name, (kind, text) in _OPTIONS.items():
        group.addoption(f"--ldp-{name}", type=kind, default=None, help=text)


@pytest.fixture(scope="session")
def assert_ldp(pytestconfig: pytest.Config) -> Callable[..., Verification]:
    """Fixture that returns ``testing.assert_ldp``, with the --ldp- options as defaults."""
    import functools

    from fedrec_auditor.auditor import testing

    options = {name: pytestconfig.getoption(f"--ldp-{name}") for name in _OPTIONS}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return functools.partial(testing.assert_ldp, **given)
