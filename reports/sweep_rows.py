"""What a sweep leaves: variants of systems, a tidy row for each figure of each training."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from fedrec_auditor.reports.rows import Row

Kind = Literal["utility", "ahead", "attack", "gain", "claimed", "proved", "shown"]
SWEEP = "sweep.json"
"""The file of a sweep in its directory."""
AT_DELTA = " at delta "
"""Stands between a scope, with its game if it is not the data's, and its delta in a view."""
BEYOND = "beyond the protocol"
"""How the view of an attack ends that somebody makes who breaks the protocol."""
NOT_PLAYED = " was not played. "
"""Stands between an attack and why, in a note."""
KINDS: dict[str, str] = {
    "utility": "how well it recommends",
    "ahead": "how far it is from popularity, or two means, user by user",
    "attack": "what an attack reaches",
    "gain": "how far an attack is above guessing",
    "claimed": "epsilon claimed",
    "proved": "epsilon proved at most",
    "shown": "epsilon shown at least",
}


class VariantRow(Row):
    """A system with settings: ``settings`` by place where they differ from the paper's.

    ``swept`` are the values of the axes. ``twin`` is the place, among the variants, of the same
    system without noise, None where there is none.
    """

    target: str
    settings: dict[str, Any]
    swept: dict[str, str]
    twin: int | None = None


class FigureRow(Row):
    """One figure of a variant, by its place among the variants.

    ``view`` is the vantage of an attack, the scope and delta of an epsilon, the protocol of
    utility. ``baseline`` is what guessing reaches, of utility popularity or two means, where
    ``random`` is a random list or the mean of all ratings. Of an epsilon without interval both ends
    are None, and ``basis`` says its method, confidence, samples and assumptions.
    """

    variant: int
    kind: Kind
    metric: str
    view: str
    value: float
    ci_low: float | None = None
    ci_high: float | None = None
    baseline: float | None = None
    random: float | None = None
    basis: str = ""


class SweepRow(FigureRow):
    """One figure of one training."""

    seed: int


class OverTrainingsRow(FigureRow):
    """A figure over all trainings of a variant, at the confidence of the plan by itself.

    ``next_low`` and ``next_high`` are where one more training is expected, None of one training.
    """

    next_low: float | None = None
    next_high: float | None = None
    trainings: int = Field(ge=1)


class AnswerRow(Row):
    """The least noise (of utility the most), times the paper's, that keeps a condition, if any."""

    target: str
    condition: str
    words: str
    factor: float | None = None
    trainings: int = 0
    settings: dict[str, Any] = Field(default_factory=dict)


class SweepContents(Row):
    """A whole sweep; ``plan`` is that of all trainings but for targets, settings and seed.

    ``axes`` are the values by name, ``seeds`` those of the trainings. ``errors`` say which
    trainings failed, ``notes`` what was left out, ``answers`` what was searched for. ``relative``
    has utility over the twin's.
    """

    schema_version: Literal[1] = 1
    plan: dict[str, Any]
    axes: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    data: dict[str, Any]
    versions: dict[str, str]
    method: str
    variants: tuple[VariantRow, ...]
    rows: tuple[SweepRow, ...]
    overall: tuple[OverTrainingsRow, ...]
    relative: tuple[OverTrainingsRow, ...]
    answers: tuple[AnswerRow, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
