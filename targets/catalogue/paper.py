"""What all statements of one paper share: whom it defends against, and its symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreatModel:
    """Who is assumed to do what, in the paper's own words put into ours.

    It is decided once a paper, by what stands at ``place``, and holds for all of its statements.
    ``adversary`` says against whom privacy is promised and what they may do; ``trusted``, who is
    taken to keep to the protocol.
    """

    place: str
    adversary: str
    trusted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper: how it is cited, its threat model, and its symbols, each with what it stands for."""

    title: str
    threat: ThreatModel
    symbols: Mapping[str, str]
