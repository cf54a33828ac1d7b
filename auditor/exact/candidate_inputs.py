"""Inputs of a randomizer among which the worst pair is searched, and a maximizing search with
Hypothesis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, input_key
from fedrec_auditor.targets.mechanisms.base import value_text

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fedrec_auditor.targets.mechanisms.base import Domain


_LARGE = 1e6
# Smallest number of examples, and total number of entries above which the number is reduced.
_FEWEST, _WORK = 30, 1 << 18


def count_examples(most: int, entries: int) -> int:
    """Returns how many examples Hypothesis shall generate: ``most``, or fewer (but at least 30) if
    one example consists of many numbers (``entries``).
    """
    return max(_FEWEST, min(most, _WORK // entries))


def search_with_hypothesis(
    strategy: SearchStrategy[Any],
    score: Callable[[Any], float],
    *,
    seed: int,
    examples: int,
    above: float = math.inf,
) -> tuple[float, Any]:
    """Maximizes ``score`` over examples that Hypothesis generates, and returns the largest score
    and its example.

    - ``strategy``: Hypothesis strategy for the examples.
    - ``score``: function to maximize. Hypothesis steers the examples towards large values.
    - ``seed``: seed of Hypothesis.
    - ``examples``: largest number of examples.
    - ``above``: threshold. If a score exceeds it, the result is the simplest example with such a
      score, as Hypothesis shrinks it.

    The result is (-inf, None) if the strategy produces no example. Equal seeds give equal examples,
    as long as the same modules are loaded (Hypothesis tries constants of the user's code). Nothing
    is stored between calls. An AuditError that ``score`` raises is raised again.
    """
    from hypothesis import Phase, Verbosity, currently_in_test_context, find, settings, target
    from hypothesis.errors import NoSuchExample, Unsatisfiable

    best: tuple[float, Any] = (-math.inf, None)
    errors: list[AuditError] = []

    def breaks(example: Any) -> bool:
        nonlocal best
        if errors:
            return False
        try:
            value = score(example)
        except AuditError as error:
            errors.append(error)
            return False
        target(min(max(value, -_LARGE), _LARGE))
        if value > best[0]:
            best = value, example
        return value > above

    quiet = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        verbosity=Verbosity.quiet,
    )

    def search() -> tuple[float, Any]:
        try:
            simplest = find(strategy, breaks, settings=quiet, random=Random(seed))
        except (NoSuchExample, Unsatisfiable):
            return best
        return score(simplest), simplest

    if currently_in_test_context():
        # Hypothesis refuses a search inside a user's test; a thread has a context of its own.
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(search).result()
    else:
        found = search()
    if errors:
        raise errors[0]
    return found


_MOST_LISTED = 4096
_SHOWN = 16
_MOST_PAIRS = 2016


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateInputs:
    """Inputs of a randomizer from which the search for the largest epsilon forms pairs.

    - ``strategy``: Hypothesis strategy that draws inputs.
    - ``all_inputs``: all inputs, if they are known; otherwise None.
    - ``probes``: a few inputs, under which outputs are drawn to learn the form of the outputs.
    - ``pairs``: pairs that are always tried: all pairs of ``all_inputs`` if there are few, the
      smallest and the largest input of a domain, if finite, and pairs of the worst-case inputs that
      the mechanism states.
    - ``is_given``: true if the user gave the inputs.
    - ``is_complete``: true if ``all_inputs`` contains every input of the domain. If no domain is
      known, a list counts as the whole domain.
    """

    strategy: SearchStrategy[Any]
    all_inputs: list[Any] | None
    probes: list[Any]
    pairs: list[tuple[Any, Any]]
    is_given: bool
    is_complete: bool

    @classmethod
    def collect(
        cls, dist: OutputDistribution, inputs: Iterable[Any] | SearchStrategy[Any] | None, seed: int
    ) -> CandidateInputs:
        """Collects candidate inputs from the given ``inputs`` (list or Hypothesis strategy) or, if
        these are None, from the domain of the randomizer ``dist``.

        Raises InputError if there are neither inputs nor a domain, or fewer than two inputs.
        ``seed`` is the seed of the draws of inputs.
        """
        from hypothesis import strategies as st

        everything = None if dist.domain is None else _enumerated(dist.domain)
        listed: list[Any] | None = None
        extreme: list[list[Any]] = []
        if inputs is None:
            if dist.domain is None:
                raise InputError(
                    f"Expected inputs for {dist.sampler.name}, whose domain is unknown, got none. "
                    "Give inputs as a list or as a Hypothesis strategy."
                )
            strategy, listed, extreme = inputs_of(dist.domain), everything, [_ends(dist.domain)]
            if dist.named is not None:
                extreme.append(list(dist.named.inputs[:_SHOWN]))
        elif isinstance(inputs, st.SearchStrategy):
            strategy = inputs
        else:
            listed = [dist.check_input(value) for value in inputs]
            if len(listed) < 2:
                raise InputError(f"Expected at least 2 inputs, got {len(listed)}. Give a pair.")
            strategy = st.sampled_from(listed)
        if listed is not None:
            count = min(_SHOWN, len(listed))
            probes = [listed[k] for k in np.linspace(0, len(listed) - 1, count).round().astype(int)]
            spelled = set(map(_spelled, listed))
            whole = dist.domain is None or (
                everything is not None and spelled.issuperset(map(_spelled, everything))
            )
        else:
            probes, whole = _some(dist, strategy, seed, inputs is None), False
        few = listed if listed and math.comb(len(listed), 2) <= _MOST_PAIRS else []
        return cls(
            strategy=strategy,
            all_inputs=listed,
            probes=probes,
            pairs=[p for group in (few, *extreme) for p in itertools.combinations(group, 2)],
            is_given=inputs is not None,
            is_complete=whole,
        )

    @property
    def size(self) -> int:
        """Number of entries (numbers) of one input."""
        return int(np.size(self.probes[0]))


def _some(
    dist: OutputDistribution, strategy: SearchStrategy[Any], seed: int, whole: bool
) -> list[Any]:
    """Up to 16 different inputs that ``strategy`` draws. For a ``whole`` domain, the mechanism's
    worst-case inputs come first.

    Raises InputError if the strategy draws fewer than two different inputs.
    """
    different: dict[Hashable, Any] = {}
    if whole and dist.named is not None:
        different = {input_key(value): value for value in dist.named.inputs[:4]}

    def look(value: Any) -> float:
        different.setdefault(input_key(dist.check_input(value)), value)
        return 0.0

    search_with_hypothesis(strategy, look, seed=seed, examples=2 * _SHOWN)
    if len(different) < 2:
        raise InputError(
            "Expected a strategy with at least 2 different inputs, got "
            f"{[value_text(value) for value in different.values()]}. Widen the strategy."
        )
    return list(different.values())[:_SHOWN]


def _ends(domain: Domain) -> list[Any]:
    """Inputs whose entries all equal the lower end of the domain, or all the upper end, if the end
    is finite.
    """
    ends = [end for end in (domain.low, domain.high) if math.isfinite(end)]
    return [np.full(domain.shape, end) if domain.shape else _plain(end) for end in ends]


def _spelled(value: Any) -> str:
    """An input as text, by which equal inputs are recognized. Numbers are written by value, so that
    1, 1.0 and True are equal.
    """
    array = np.asarray(value)
    return repr((array.astype(float) if array.dtype.kind in "biuf" else array).tolist())


def _enumerated(domain: Domain) -> list[Any] | None:
    """Every input of a small domain, with the simplest first; None if the domain has too many
    inputs.
    """
    size = math.prod(domain.shape)
    if domain.values is None or size > 32 or len(domain.values) ** size > _MOST_LISTED:
        return None
    values = [_plain(value) for value in domain.values]
    if not domain.shape:
        return values
    return [np.array(v).reshape(domain.shape) for v in itertools.product(values, repeat=size)]


def inputs_of(domain: Domain) -> SearchStrategy[Any]:
    """Returns a Hypothesis strategy for all inputs of ``domain``, in which the ends of the domain
    are frequent.

    Examples shrink towards the simplest input. If the domain has no shape, examples are numbers.
    Otherwise they are float64 arrays of its shape: constant arrays, arrays with a few different
    entries, and arbitrary arrays. All examples are finite, even if the domain is not.

    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
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
    """The number as an int if it is integral, for readable texts."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
