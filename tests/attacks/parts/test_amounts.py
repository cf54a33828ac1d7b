"""How much a message says, of any form: also of none."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.attacks.parts.amounts import _sizes


@pytest.mark.parametrize("shape", [(3, 0), (3, 0, 4), (3, 4), (3, 4, 2), (3,)])
def test_messages_of_any_shape_have_sizes(shape: tuple[int, ...]) -> None:
    found = _sizes(np.ones(shape))
    assert found.shape == (3, 5)
    assert np.isfinite(found).all()
    assert found[:, 4] == pytest.approx(np.prod(shape[1:], dtype=float))
