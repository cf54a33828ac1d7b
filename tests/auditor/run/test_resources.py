"""Resources: what is refused."""

from __future__ import annotations

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.run.resources import make_resources


def test_no_jobs_are_refused() -> None:
    with pytest.raises(InputError, match="jobs=0"):
        make_resources(0)
