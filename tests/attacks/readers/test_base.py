from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.attacks.readers.base import Evidence


def test_evidence_that_is_no_number_is_a_fault_of_its_reader() -> None:
    with pytest.raises(ArithmeticError, match="Repair the reader"):
        Evidence(users=np.arange(1), log_ratio=np.array([[0.0, np.nan]]))
