"""Laws that do not apply to a subject are no pass of it."""

from __future__ import annotations

import pytest

from tests.contracts.laws import hold


class Contract:
    """One law that holds for "sound" and applies to texts alone."""

    subject: object

    def test_soundness(self) -> None:
        if not isinstance(self.subject, str):
            pytest.skip("it is no text")
        assert self.subject == "sound"


def test_a_law_that_does_not_apply_is_no_pass() -> None:
    hold(Contract, "sound")
    with pytest.raises(AssertionError):
        hold(Contract, "broken")
    with pytest.raises(LookupError, match="No law of Contract applies to 1"):
        hold(Contract, 1)
    with pytest.raises(LookupError, match="test_soundness does not apply: it is no text"):
        hold(Contract, 1, "test_soundness")
