"""Fixtures of several pages: the judged catalogue, and a process without third-party plugins."""

from __future__ import annotations

import pytest

from benchmarks.wild import package
from fedrec_auditor.auditor.judging.catalogue import judge_entries, list_entries
from fedrec_auditor.reports.documents.catalogue import CatalogueRow

package.INSTALL_FOLDER /= "nowhere"  # what a benchmark has installed is not imported here


@pytest.fixture(scope="session")
def judged() -> tuple[CatalogueRow, ...]:
    return judge_entries(list_entries(), jobs=1)
