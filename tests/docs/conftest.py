"""The catalogue judged as a whole, which takes seconds and several pages need."""

from __future__ import annotations

import pytest

from fedrec_auditor.auditor.judging.catalogue import entries, judge
from fedrec_auditor.reports.catalogue import CatalogueRow


@pytest.fixture(scope="session")
def judged() -> tuple[CatalogueRow, ...]:
    return judge(entries(), jobs=1)
