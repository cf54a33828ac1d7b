"""What an attack is not told of its background is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.attribute_attacks import AttributeKnn
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.membership_attacks import InteractionMembership, UserMembership
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.transcript import Kind
from tests.attacks.made import sent, view_of

BITS = sent({"bits": Dense(np.eye(2, 3), Kind.BITS)}, {"items": np.eye(3, 2)})
PAIRS = np.zeros((1, 2), dtype=np.int64)


@pytest.mark.parametrize(
    ("attack", "vantage", "background", "lacks"),
    [
        (AttributeKnn(), Vantage.SERVER, Background(), "at least one known user"),
        (InteractionMembership(), Vantage.SERVER, Background(), "candidate pairs"),
        (InteractionMembership(), Vantage.SHUFFLED, Background(candidates=PAIRS), "items met"),
        (UserMembership(), Vantage.PEERS, Background(), "at least 2 references"),
    ],
)
def test_what_is_lacking_is_asked_for(
    attack: Any, vantage: Vantage, background: Background, lacks: str
) -> None:
    rng = np.random.default_rng(0)
    view = view_of(BITS, users=2, items=3, vantage=vantage, rng=rng, route=vantage)
    assert not attack.refusal(view)
    with pytest.raises(InputError, match=lacks):
        attack.infer(view, background, rng)
