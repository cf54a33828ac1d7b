"""The inputs among which a ratio is searched: all of a finite domain, a list, or a strategy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification.exact.law import Law, identity
from fedrec_auditor.auditor.verification.exact.steering import worst
from fedrec_auditor.auditor.verification.words import in_words

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fedrec_auditor.targets.mechanisms.base import Domain

_MOST_LISTED = 4096
_SHOWN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Inputs of a law: ``strategy`` draws them, ``listed`` are all of them where that is known.

    ``shown`` are a few, to learn from what the outputs are like; ``ends`` the least and the
    greatest of a domain, where finite. ``given`` says that the user named them, ``whole`` that no
    input of the domain is missing from ``listed``; a list is the domain of a law that has none.
    """

    strategy: SearchStrategy[Any]
    listed: list[Any] | None
    shown: list[Any]
    ends: list[Any]
    given: bool
    whole: bool

    @classmethod
    def of(cls, law: Law, inputs: Iterable[Any] | SearchStrategy[Any] | None, seed: int) -> Space:
        """The inputs given, or those of the law's domain; InputError if there are none."""
        from hypothesis import strategies as st

        listed: list[Any] | None = None
        ends: list[Any] = []
        if inputs is None:
            if law.domain is None:
                raise InputError(
                    f"Expected inputs for {law.name}, whose domain is not known, got none. Give a "
                    "list of inputs or a Hypothesis strategy."
                )
            strategy, listed = inputs_of(law.domain), _enumerated(law.domain)
            ends = _ends(law.domain)
        elif isinstance(inputs, st.SearchStrategy):
            strategy = inputs
        else:
            listed = [law.check(value) for value in inputs]
            if len(listed) < 2:
                raise InputError(f"Expected at least 2 inputs, got {len(listed)}. Name a pair.")
            strategy = st.sampled_from(listed)
        everything = listed if law.domain is None else _enumerated(law.domain)
        if listed is not None:
            count = min(_SHOWN, len(listed))
            shown = [listed[k] for k in np.linspace(0, len(listed) - 1, count).round().astype(int)]
        else:
            shown = _some(law, strategy, seed, inputs is None)
        return cls(
            strategy=strategy,
            listed=listed,
            shown=shown,
            ends=ends,
            given=inputs is not None,
            whole=listed is not None
            and everything is not None
            and set(map(_spelled, everything)) <= set(map(_spelled, listed)),
        )

    @property
    def size(self) -> int:
        """Entries of one input."""
        return int(np.size(self.shown[0]))


def _some(law: Law, strategy: SearchStrategy[Any], seed: int, whole: bool) -> list[Any]:
    """Different inputs of a strategy, checked; of the ``whole`` domain, worst_case ones first."""
    seen: dict[Hashable, Any] = {}
    if whole and law.named is not None:
        seen = {identity(value): value for value in law.named.inputs[:4]}

    def look(value: Any) -> float:
        seen.setdefault(identity(law.check(value)), value)
        return 0.0

    worst(strategy, look, seed=seed, examples=2 * _SHOWN)
    if len(seen) < 2:
        raise InputError(
            "Expected a strategy of at least 2 different inputs, got "
            f"{[in_words(value) for value in seen.values()]}. Widen it."
        )
    return list(seen.values())[:_SHOWN]


def _ends(domain: Domain) -> list[Any]:
    """The inputs of least and of greatest entries, as far as they are finite."""
    ends = [end for end in (domain.low, domain.high) if math.isfinite(end)]
    return [np.full(domain.shape, end) if domain.shape else _plain(end) for end in ends]


def _spelled(value: Any) -> str:
    """An input as text, numbers by their value: 1, 1.0 and True are one."""
    array = np.asarray(value)
    return repr((array.astype(float) if array.dtype.kind in "biuf" else array).tolist())


def _enumerated(domain: Domain) -> list[Any] | None:
    """Every input of a domain of few, the plainest first; None if they are many."""
    size = math.prod(domain.shape)
    if domain.values is None or size > 32 or len(domain.values) ** size > _MOST_LISTED:
        return None
    values = [_plain(value) for value in domain.values]
    if not domain.shape:
        return values
    return [np.array(v).reshape(domain.shape) for v in itertools.product(values, repeat=size)]


def inputs_of(domain: Domain) -> SearchStrategy[Any]:
    """Every input of ``domain``, biased to its ends, and shrinking towards the simplest.

    Numbers for a domain without shape, float64 arrays of its shape otherwise: constant ones,
    ones with few entries that differ, and any. Finite, however far the domain reaches.

    >>> from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
    >>> inputs_of(BitFlip.symmetric(1.0).domain)
    sampled_from([0, 1])
    """
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp

    entries = _entries(domain)
    if not domain.shape:
        return entries
    constant = entries.map(lambda entry: np.full(domain.shape, entry, dtype=np.float64))
    any_array = hnp.arrays(np.float64, domain.shape, elements=entries, fill=entries)
    return st.one_of(constant, any_array)


def _entries(domain: Domain) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    if domain.values is not None:
        return st.sampled_from([_plain(value) for value in domain.values])
    low, high = (end if math.isfinite(end) else None for end in (domain.low, domain.high))
    marks = {0.0, 1.0, -1.0, domain.low, domain.high}
    inside = [m for m in marks if domain.low <= m <= domain.high and math.isfinite(m)]
    return st.one_of(
        st.sampled_from(sorted(inside, key=lambda mark: (abs(mark), mark < 0))).map(_plain),
        st.floats(low, high, allow_nan=False, allow_infinity=False),
    )


def _plain(value: float) -> int | float:
    """A whole number as an int: witnesses are read by people."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
