"""What senders say of their data in the clear is read wherever it is seen, and links nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import fedrec_auditor
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.papers.fedmf_full.systems.fedmf_part import FedMfPart


@dataclass(frozen=True, kw_only=True)
class Shown(FedMfPart):
    """A server that sees single messages, which are noise, and the items beside them."""

    @property
    def shown(self) -> Vantage:  # type: ignore[override]
        return Vantage.SERVER

    def passed(self, ratings: Any, items: Any, users: Any) -> Dense:
        noise = np.random.default_rng(0).normal(size=(*ratings.shape, self.dimension))
        return Dense(noise.astype(np.float32), Kind.CHANGE, self.learning_rate)


def test_a_server_reads_what_is_in_the_clear_beside_messages_as_who_sees_their_sum_does() -> None:
    data = (np.random.default_rng(3).random((30, 40)) < 0.25) * 4.0
    record = fedrec_auditor.audit_system(
        Shown(rounds=2, dimension=2),
        data=data,
        games=["local"],
        attacks=["interaction-reconstruction", "linkage"],
        quick=True,
        jobs=1,
    )
    read = {row.vantage: row.value for row in record.attacks if row.metric == "interaction F1"}
    assert read == {Vantage.SERVER: 1.0, Vantage.AGGREGATE: 1.0}
    linked = {row.vantage for row in record.attacks if row.attack == "linkage"}
    assert linked <= {Vantage.SERVER}
