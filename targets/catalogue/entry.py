"""One statement of a paper about privacy: where it stands, what it claims, and what holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from string import ascii_lowercase, digits
from typing import Any

from fedrec_auditor.accountants.statements.bound import Side
from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.verdict import Arithmetic, judge_number
from fedrec_auditor.targets.catalogue.paper import Paper


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """A number that a paper states or relies on, beside the one computed here.

    ``what`` names it; ``claimed`` and ``right`` are equal, to ``tolerance`` relative, if the paper
    is right; where it says only that the number is ``below`` the claimed one, it must be that. An
    ``upper`` bound (an epsilon, a sensitivity) that is larger than the right one holds, loosely.
    ``how`` says in a sentence how the right one was found; with a ``side`` the truth may lie on one
    side of it.
    """

    what: str
    claimed: float
    right: float
    how: str
    tolerance: float = 1e-9
    below: bool = False
    upper: bool = False
    side: Side | None = None

    @property
    def word(self) -> Arithmetic:
        """Whether the claimed number comes out."""
        return judge_number(
            self.claimed,
            self.right,
            tolerance=self.tolerance,
            below=self.below,
            upper=self.upper,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One claim of the catalogue, on the target that it is made of.

    ``number`` is a heading, 1 to 28, and a part of it from the second on: "7", "22b". ``settings``
    are the target's where they differ from its defaults: the least that shows what the claim is
    worth. ``n_users`` and ``n_items`` among them are the population, by default MovieLens 100K's.
    ``source`` is where it stands in ``paper``. A statement about epsilon has a ``scope`` and is
    judged like any scoped claim: ``place`` is a piece of the ``source`` of the target's claim that
    it is, where several claims share the scope. Any other statement has ``computed``, numbers that
    are held against those computed here; an entry may have both.

    ``claimed`` and ``provable`` are formulas in plain text, ``reason`` one sentence on why they
    differ or agree. ``ours`` says that the claimed epsilon stands nowhere in the paper: it is what
    the paper's formula gives at our settings. ``computed_at`` says of what the numbers are, where
    that is far from what a reader of the paper would take. ``repeats`` is the number of the entry
    whose statement this is, at other settings: both count once. ``repaired`` are the settings with
    which the finding goes away, None where nothing has to be or can be repaired by a switch.
    ``demonstration`` is a member of that family.
    """

    number: str
    paper: Paper
    target: str
    kind: StatementKind = StatementKind.PRIVACY
    basis: Basis = Basis.PRINTED
    settings: Mapping[str, Any] = field(default_factory=dict)
    statement: str
    source: str
    claimed: str
    provable: str
    reason: str
    scope: Scope | None = None
    delta: float | None = None
    place: str = ""
    ours: bool = False
    computed_at: str = ""
    repeats: str = ""
    computed: Callable[[], Iterable[Computed]] | None = None
    repaired: Mapping[str, Any] | None = None
    demonstration: str | None = None

    @property
    def heading(self) -> int:
        """The number without its part."""
        return int(self.number.rstrip(ascii_lowercase))

    @property
    def part(self) -> str:
        """The letter of the part, "" for the first."""
        return self.number.lstrip(digits)
