"""Linkage: which message of a round is whose, by what the same users sent in rounds before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.attacks.base import AttackFamily, Background, Links
from fedrec_auditor.attacks.parts.fingerprints import (
    Batch,
    fingerprints,
    likeness,
    margin,
    reciprocal_rank,
    whole,
)
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.targets.transcript import Kind, RoundView, View

ROUNDS = 2
"""Most rounds before the last that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """The nearest neighbour by the fingerprint that identifies users best (``fingerprints``).

    It knows who sent what in earlier rounds and not who sends in the last one: a server whose
    clients change their pseudonyms, or hide behind a proxy from then on. Behind a proxy it knows no
    sender at all. Which fingerprint is best is tried on earlier rounds.
    """

    family: ClassVar[AttackFamily] = AttackFamily.LINKAGE
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "nearest neighbour by cosine of what messages tell of their senders; derived in "
        "attacks/parts/fingerprints.py"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of whole messages in two rounds or more."""
        if view.public.parties is not None:
            return "Links messages of single users; these come from parties."
        rounds = linked_rounds(view)
        if len(rounds) > 1:
            return ""
        split = [part for seen in view.rounds for part in (seen.shuffled or {}).values()]
        if split and all(component.kind is Kind.REPORTS for component in split):
            return (
                "Links whole messages; behind the proxy each report of one coordinate is a message "
                "of its own."
            )
        if rounds:
            return "Links messages of different rounds; there is a single round with messages."
        return unread(view, "whole messages of single users in two rounds")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Links:
        """How like each message of the last round is to those of every candidate.

        Of that round no sender is read.
        """
        *before, last = linked_rounds(view)
        if before[-1].uploads is None:
            batches = [(np.arange(_count(before[-1])), fingerprints(view, before[-1]))]
            candidates = batches[0][0]
        else:
            sent = [(seen.uploads.users, seen) for seen in before if seen.uploads is not None]
            candidates = np.unique(np.concatenate([users for users, _ in sent]))
            batches = [
                (np.searchsorted(candidates, users), fingerprints(view, seen))
                for users, seen in sent
            ]
        likeliest = likeness(fingerprints(view, last), batches, len(candidates))
        merit = _tried(batches, len(candidates)) or {
            name: margin(cosines) for name, cosines in likeliest.items()
        }
        best = max(sorted(likeliest), key=lambda name: merit[name])
        return Links(scores=likeliest[best], candidates=candidates.astype(np.int64))


def _tried(batches: list[Batch], candidates: int) -> dict[str, float]:
    """How well each fingerprint links the last of these rounds to those before; empty if none."""
    *before, (whose, sent) = batches
    both = np.isin(
        whose, np.concatenate([np.zeros(0, dtype=np.intp), *(users for users, _ in before)])
    )
    if not both.any():
        return {}
    cosines = likeness({name: part[both] for name, part in sent.items()}, before, candidates)
    return {name: reciprocal_rank(of_users, whose[both]) for name, of_users in cosines.items()}


def linked_rounds(view: View) -> tuple[RoundView, ...]:
    """The last round with whole messages, and up to ``ROUNDS`` before it."""
    able = [seen for seen in view.rounds if _count(seen)]
    return tuple(able[-1 - ROUNDS :])


def _count(seen: RoundView) -> int:
    return len(next(iter(whole(seen).values()), ()))
