"""Test of plaintext data, which attacks read at every vantage that sees them, without linkage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import fedrec_auditor
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import Bits, Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.systems.base import TrainingRun
from fedrec_auditor.targets.systems.system import Messages, UploadRequest
from fedrec_auditor.targets.transcript import PublicInfo, Uploads


@dataclass(frozen=True, kw_only=True)
class PlaintextFcf(Fcf):
    """A system whose messages are noise, and which also sends the items in plaintext."""

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        return replace(super().get_public_info(interactions), protocol_vantage=Vantage.AGGREGATE)

    def make_messages(self, request: UploadRequest) -> Messages:
        shape = (len(request.sender_rows), request.profiles.n_items, self.factors)
        noise = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        return {"gradient": Dense(noise, Payload.GRADIENT, -1.0)}

    def run(self, interactions: Interactions, *given: Any, **settings: Any) -> TrainingRun:
        run = super().run(interactions, *given, **settings)
        plain = Uploads(np.arange(interactions.n_users), {"rated": Bits(interactions.ratings)})
        rounds = tuple(replace(one, cleartext=plain) for one in run.transcript.rounds)
        return replace(run, transcript=replace(run.transcript, rounds=rounds))


def test_plaintext_is_read_by_servers_of_messages_and_of_sums() -> None:
    data = (np.random.default_rng(3).random((30, 40)) < 0.25) * 4.0
    record = fedrec_auditor.audit_system(
        PlaintextFcf(rounds=2, factors=2),
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
