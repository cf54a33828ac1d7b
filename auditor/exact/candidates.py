"""Inputs of a randomizer among which the worst pair is searched, outputs at which two inputs are
compared, and a maximizing search with Hypothesis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, make_input_key
from fedrec_auditor.auditor.worlds.statistics import find_grid_step
from fedrec_auditor.targets.mechanisms.base import format_value

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fedrec_auditor.targets.mechanisms.base import Domain


_LARGE = 1e6
# Smallest number of examples, and total number of entries above which the number is reduced.
_MIN_EXAMPLES, _WORK = 30, 1 << 18


def limit_search_examples(max_examples: int, entries: int) -> int:
    """Returns the number of examples that Hypothesis generates in a search.

    ``max_examples``: largest number of examples.
    ``entries``: count of numbers in one example. The larger it is, the fewer examples, but never
        fewer than 30.
    """
    return max(_MIN_EXAMPLES, min(max_examples, _WORK // entries))


def search_with_hypothesis(
    strategy: SearchStrategy[Any],
    score: Callable[[Any], float],
    *,
    seed: int,
    max_examples: int,
    stop_above: float = math.inf,
) -> tuple[float, Any]:
    """Maximizes ``score`` over examples that Hypothesis generates, and returns the largest score
    and its example.

    - ``strategy``: Hypothesis strategy for the examples.
    - ``score``: function to maximize. An AuditError that it raises is raised again.
    - ``seed``: seed of Hypothesis. Equal seeds give equal examples if the same modules are loaded.
    - ``max_examples``: largest number of examples.
    - ``stop_above``: threshold. If a score exceeds it, the result is the simplest example with such
      a score.

    The result is (-inf, None) if the strategy produces no example.
    """
    from hypothesis import Phase, Verbosity, currently_in_test_context, find, settings, target
    from hypothesis.errors import NoSuchExample, Unsatisfiable

    # Examples depend on the loaded modules, because Hypothesis also tries constants of loaded code.
    # Nothing is stored between calls.
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
        return value > stop_above

    quiet = settings(
        max_examples=max_examples,
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


_MAX_LISTED = 4096
_MAX_PROBES = 16
_MAX_PAIRS = 2016


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateInputs:
    """Inputs of a randomizer from which the search for the largest epsilon forms pairs.

    - ``input_strategy``: Hypothesis strategy that draws inputs.
    - ``all_inputs``: all inputs that may form pairs, if these can be listed; otherwise None.
    - ``probe_inputs``: a few inputs, under which outputs are drawn to learn their form.
    - ``fixed_pairs``: pairs of inputs that are always tried.
    - ``is_user_given``: true if the user gave the inputs.
    - ``has_whole_domain``: true if ``all_inputs`` contains every input of the domain. If no domain
      is known, a list of inputs counts as the whole domain.
    """

    input_strategy: SearchStrategy[Any]
    all_inputs: list[Any] | None
    probe_inputs: list[Any]
    fixed_pairs: list[tuple[Any, Any]]
    is_user_given: bool
    has_whole_domain: bool

    @classmethod
    def collect(
        cls, dist: OutputDistribution, inputs: Iterable[Any] | SearchStrategy[Any] | None, seed: int
    ) -> CandidateInputs:
        """Collects candidate inputs from ``inputs``, or from the domain of the randomizer ``dist``.

        ``inputs``: a list or a Hypothesis strategy; None for the domain.
        ``seed``: seed of the draws of inputs.

        Raises InputError if there are neither inputs nor a domain, or fewer than two inputs.
        """
        from hypothesis import strategies as st

        everything = None if dist.domain is None else _list_inputs(dist.domain)
        listed: list[Any] | None = None
        extreme: list[list[Any]] = []
        if inputs is None:
            if dist.domain is None:
                raise InputError(
                    f"Expected inputs for {dist.sampler.name}, whose domain is unknown, got none. "
                    "Give inputs as a list or as a Hypothesis strategy."
                )
            strategy, listed, extreme = inputs_of(dist.domain), everything, [_get_ends(dist.domain)]
            if dist.mechanism_worst_case is not None:
                extreme.append(list(dist.mechanism_worst_case.inputs[:_MAX_PROBES]))
        elif isinstance(inputs, st.SearchStrategy):
            strategy = inputs
        else:
            listed = [dist.check_input(value) for value in inputs]
            if len(listed) < 2:
                raise InputError(f"Expected at least 2 inputs, got {len(listed)}. Add inputs.")
            strategy = st.sampled_from(listed)
        if listed is not None:
            count = min(_MAX_PROBES, len(listed))
            probes = [listed[k] for k in np.linspace(0, len(listed) - 1, count).round().astype(int)]
            spelled = set(map(_to_text, listed))
            whole = dist.domain is None or (
                everything is not None and spelled.issuperset(map(_to_text, everything))
            )
        else:
            probes, whole = _draw_inputs(dist, strategy, seed, inputs is None), False
        # The fixed pairs are all pairs of the listed inputs, if these are few. Unless the user gave
        # inputs, they include the pair of the smallest and the largest input of the domain, if
        # finite, and pairs of the worst-case inputs that the mechanism states.
        few = listed if listed and math.comb(len(listed), 2) <= _MAX_PAIRS else []
        return cls(
            input_strategy=strategy,
            all_inputs=listed,
            probe_inputs=probes,
            fixed_pairs=[p for group in (few, *extreme) for p in itertools.combinations(group, 2)],
            is_user_given=inputs is not None,
            has_whole_domain=whole,
        )

    @property
    def n_entries(self) -> int:
        """Number of entries (numbers) of one input."""
        return int(np.size(self.probe_inputs[0]))


def _draw_inputs(
    dist: OutputDistribution, strategy: SearchStrategy[Any], seed: int, whole: bool
) -> list[Any]:
    """Up to 16 different inputs that ``strategy`` draws.

    ``whole``: whether ``strategy`` draws from the whole domain. If so, the mechanism's worst-case
        inputs come first.

    Raises InputError if the strategy draws fewer than two different inputs.
    """
    different: dict[Hashable, Any] = {}
    if whole and dist.mechanism_worst_case is not None:
        different = {make_input_key(value): value for value in dist.mechanism_worst_case.inputs[:4]}

    def look(value: Any) -> float:
        different.setdefault(make_input_key(dist.check_input(value)), value)
        return 0.0

    search_with_hypothesis(strategy, look, seed=seed, max_examples=2 * _MAX_PROBES)
    if len(different) < 2:
        raise InputError(
            "Expected a strategy that draws at least 2 different inputs, got only "
            f"{[format_value(value) for value in different.values()]}. Widen the strategy."
        )
    return list(different.values())[:_MAX_PROBES]


def _get_ends(domain: Domain) -> list[Any]:
    """Inputs whose entries all equal the lower end of the domain, or all the upper end, if the end
    is finite.
    """
    ends = [end for end in (domain.low, domain.high) if math.isfinite(end)]
    return [np.full(domain.shape, end) if domain.shape else _simplify(end) for end in ends]


def _to_text(value: Any) -> str:
    """An input as text, by which equal inputs are recognized. Numbers are written by value, so that
    1, 1.0 and True are equal.
    """
    array = np.asarray(value)
    return repr((array.astype(float) if array.dtype.kind in "biuf" else array).tolist())


def _list_inputs(domain: Domain) -> list[Any] | None:
    """Every input of a small domain, with the simplest first; None if the domain has too many
    inputs.
    """
    size = math.prod(domain.shape)
    if domain.values is None or size > 32 or len(domain.values) ** size > _MAX_LISTED:
        return None
    values = [_simplify(value) for value in domain.values]
    if not domain.shape:
        return values
    return [np.array(v).reshape(domain.shape) for v in itertools.product(values, repeat=size)]


def inputs_of(domain: Domain) -> SearchStrategy[Any]:
    """Returns a Hypothesis strategy for all inputs of ``domain``, in which the ends of the domain
    are frequent.

    Examples are finite numbers, or float64 arrays of the domain's shape if it has one. They shrink
    towards the simplest input.

    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> inputs_of(BitFlip.symmetric(1.0).domain)
    sampled_from([0, 1])
    """
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp

    entries = _entry_strategy(domain)
    if not domain.shape:
        return entries
    constant = entries.map(lambda entry: np.full(domain.shape, entry, dtype=np.float64))
    any_array = hnp.arrays(np.float64, domain.shape, elements=entries, fill=entries)
    return st.one_of(constant, any_array)


def _entry_strategy(domain: Domain) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    if domain.values is not None:
        return st.sampled_from([_simplify(value) for value in domain.values])
    low, high = (end if math.isfinite(end) else None for end in (domain.low, domain.high))
    marks = {0.0, 1.0, -1.0, domain.low, domain.high}
    inside = [m for m in marks if domain.low <= m <= domain.high and math.isfinite(m)]
    return st.one_of(
        st.sampled_from(sorted(inside, key=lambda mark: (abs(mark), mark < 0))).map(_simplify),
        st.floats(low, high, allow_nan=False, allow_infinity=False),
    )


def _simplify(value: float) -> int | float:
    """The number as an int if it is integral, for readable texts."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)


Floats = NDArray[np.float64]

_DRAWS = 256
_MAX_OUTPUTS = 1 << 14
# Total number of entries drawn for all inputs to find rare outputs, if outputs are few and repeat.
MAX_RARE_OUTPUT_ENTRIES = 1 << 21
# Largest number of entries if a call returns a single output, and number of draws per call.
_SINGLY, _AT_ONCE = 1 << 18, 1 << 17
_REACH = 2.0 ** np.arange(-6, 12.5, 0.5)
_STEPS = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 256.0, 4096.0])
# Number of entries of a vector that are tested for a grid.
_GRIDS = 64
# Larger integers do not fit into int64.
_MAX_INTEGER = 2.0**62
# Tolerance of the sum of probabilities. Outputs with a smaller total probability may be missed.
_WHOLE = 1e-9
# Text on the probability of the outputs that a list of "all outputs" may lack.
RARE_TEXT = f" but for {_WHOLE:g} of probability"


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateOutputs:
    """Outputs drawn from a randomizer under some of its inputs, and properties that these draws
    show.

    An entry is one number (or other value) of an output.

    - ``drawn_outputs``: the different drawn outputs, (k, *output shape).
    - ``has_drawn_values_only``: true if entries are assumed to take no values but the drawn ones.
    - ``grid_step``: step of the grid on which the values of an entry lie (1 for integers); 0 if
      they are not on a grid.
    - ``grid_offset``: a point of the grid; other points are at multiples of ``grid_step`` from it.
    - ``is_continuous``: true if outputs are taken to have densities.
    - ``range_centre``, ``range_width``: centre and width of the range of each entry, (*output
      shape).
    - ``all_outputs``: all possible outputs, (m, *output shape), if they are few enough to be
      determined; otherwise None.
    """

    drawn_outputs: NDArray[Any]
    has_drawn_values_only: bool
    grid_step: Floats
    grid_offset: Floats
    is_continuous: bool
    range_centre: Floats
    range_width: Floats
    all_outputs: NDArray[Any] | None = None

    @classmethod
    def from_draws(
        cls, dist: OutputDistribution, inputs: CandidateInputs, seed: int, samples: int
    ) -> CandidateOutputs:
        """Draws outputs under some of ``inputs``, at most ``samples`` under each, and computes the
        fields of this class from them.

        ``dist`` is the randomizer with its claimed output probabilities, and ``seed`` the seed of
        the draws.
        """
        size, seeded_inputs = min(_DRAWS, samples), enumerate(inputs.probe_inputs, seed)
        drawn = np.concatenate([dist.draw(value, size, own) for own, value in seeded_inputs])
        pool, shape = np.unique(drawn, axis=0), drawn.shape[1:]
        numbers, few = drawn.dtype.kind in "iuf", len(pool) <= len(drawn) // 4
        if few:
            pool = _add_rare_outputs(dist, inputs, pool, seed, samples)
        values = (
            np.where(np.isfinite(pool), pool, 0).astype(float) if numbers else np.zeros((1, *shape))
        )
        low, high = values.min(axis=0), values.max(axis=0)
        flat = values.reshape(len(values), -1)
        step = np.all(flat == np.rint(flat), axis=0).astype(float)
        for entry in np.flatnonzero(step == 0)[:_GRIDS]:
            step[entry] = find_grid_step(flat[:, entry])
        step = step.reshape(shape)
        grid = bool(np.all(step > 0))
        # Names, bits, and few different numbers that are not on a grid have drawn values only.
        # Numbers that seldom repeat and are not on a grid are taken to have densities.
        found = cls(
            drawn_outputs=pool,
            has_drawn_values_only=not numbers or (few and not grid),
            grid_step=step,
            grid_offset=np.asarray(np.where(step == np.rint(step), 0.0, low)),
            is_continuous=numbers and not few and not grid,
            range_centre=np.asarray((low + high) / 2.0),
            range_width=np.asarray(np.where(high > low, high - low, 1.0)),
        )
        every = found._find_all_outputs(dist, inputs.all_inputs or inputs.probe_inputs)
        return replace(found, all_outputs=every)

    def __str__(self) -> str:
        return "drawn and far outputs" if self.all_outputs is None else f"all outputs{RARE_TEXT}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output."""
        return self.drawn_outputs.shape[1:]

    def _find_all_outputs(self, dist: OutputDistribution, inputs: list[Any]) -> NDArray[Any] | None:
        """All possible outputs, (m, *output shape), if they can be determined; otherwise None.

        Under each of ``inputs``, their probabilities must sum to 1 within rounding.
        """
        if self.is_continuous:
            return None
        worst_case = dist.mechanism_worst_case
        told = worst_case is not None and worst_case.exhaustive
        outputs = worst_case.outputs if worst_case is not None and told else self.list_grid()
        table = dist.try_log_probs(outputs, inputs)
        if not sums_to_one(table):
            return None
        # Tested further points of the grid must have probability 0.
        further = not self.has_drawn_values_only and not told
        if further and np.isfinite(dist.try_log_probs(self._list_outliers(), inputs)).any():
            return None
        return outputs[np.isfinite(table).any(axis=0)]

    def propose_outputs(
        self, drawn_a: NDArray[Any], drawn_b: NDArray[Any], a: Any, b: Any
    ) -> NDArray[Any]:
        """Returns outputs to try in addition to the drawn outputs, within and far beyond their
        range.

        ``drawn_a``, ``drawn_b``: outputs drawn under the inputs ``a`` and ``b``, (k, *output
            shape).

        - Usually: numbers at many distances from the centre of all drawn outputs, and numbers
          beyond the typical outputs of each input, on the side away from the other input.
        - If ``has_drawn_values_only``: the drawn outputs. For bits: the inputs, their complements,
          and vectors of only 0 or only 1.
        """
        if self.has_drawn_values_only:
            return self._list_similar(a, b)
        ends = [(np.median(drawn_a, axis=0), np.median(drawn_b, axis=0))]
        if self._can_be_output(a) and self._can_be_output(b):
            ends.append((np.asarray(a, dtype=float), np.asarray(b, dtype=float)))
        tall = (-1, *(1,) * len(self.shape))
        steps, reach = _STEPS.reshape(tall), _REACH.reshape(tall) * self.range_width
        parts = [self.range_centre + reach, self.range_centre - reach]
        with np.errstate(over="ignore", invalid="ignore"):
            for one, other in ends:
                apart, ahead = steps * (one - other), np.sign(one - other) * reach
                parts += [one + apart, other - apart, one + ahead, other - ahead]
        outputs = np.concatenate(parts)
        inside = np.abs(outputs.reshape(len(outputs), -1)) < _MAX_INTEGER
        return self._to_grid(outputs[inside.all(axis=1)])

    def is_outside_draws(self, output: Any) -> bool:
        """Whether an entry of the vector ``output`` lies outside the range of the drawn outputs.

        The result is false if outputs are single numbers, or if ``has_drawn_values_only`` is true.
        """
        if self.has_drawn_values_only or not self.shape:
            return False
        return bool(np.any(np.abs(np.asarray(output) - self.range_centre) > self.range_width / 2.0))

    def make_strategy(self) -> SearchStrategy[Any]:
        """Returns a Hypothesis strategy that generates outputs of the randomizer.

        - If all possible outputs are known: these.
        - Otherwise, if ``has_drawn_values_only`` is true: drawn outputs.
        - Otherwise: numbers within and far outside the range of drawn outputs.
        """
        from hypothesis import strategies as st
        from hypothesis.extra import numpy as hnp

        if self.has_drawn_values_only or self.all_outputs is not None:
            return st.sampled_from(
                _sort_by_size(self.drawn_outputs if self.all_outputs is None else self.all_outputs)
            )
        farthest = np.max(np.abs(self.range_centre) + _REACH[-1] * self.range_width)
        reach = min(_MAX_INTEGER, float(farthest))
        if self.drawn_outputs.dtype.kind in "iu":
            whole = st.integers(-math.ceil(reach), math.ceil(reach))
            if not self.shape:
                return whole
            return hnp.arrays(np.int64, self.shape, elements=whole, fill=whole)
        entries = st.floats(-reach, reach)
        if not self.shape:
            return entries.map(lambda output: float(self._to_grid(np.array(output))))
        return hnp.arrays(np.float64, self.shape, elements=entries, fill=entries).map(self._to_grid)

    def _can_be_output(self, value: Any) -> bool:
        array = np.asarray(value)
        return array.shape == self.shape and array.dtype.kind in "biuf"

    def _list_similar(self, a: Any, b: Any) -> NDArray[Any]:
        if self.drawn_outputs.dtype.kind != "b":
            return self.drawn_outputs
        more = [np.asarray(v).astype(bool) for v in (a, b) if self._can_be_output(v)]
        more += [~output for output in more]
        plain = [np.zeros(self.shape, dtype=bool), np.ones(self.shape, dtype=bool)]
        return np.stack([*more, *plain])

    def _to_grid(self, outputs: NDArray[Any]) -> NDArray[Any]:
        step = np.where(self.grid_step > 0, self.grid_step, 1.0)
        grid = self.grid_offset + np.rint((outputs - self.grid_offset) / step) * step
        rounded = np.where(self.grid_step > 0, grid, outputs)
        return rounded.astype(np.int64) if self.drawn_outputs.dtype.kind in "iu" else rounded

    def list_grid(self) -> NDArray[Any]:
        """Returns outputs with all combinations of values of their entries, (m, *output shape).

        The values of an entry are the drawn ones and the grid points between them. If there are too
        many combinations, only the drawn outputs are returned.
        """
        flat = self.drawn_outputs.reshape(len(self.drawn_outputs), -1)
        columns = [np.unique(column) for column in flat.T]
        if not self.has_drawn_values_only:
            columns = [
                _fill_grid(column, step, origin).astype(flat.dtype)
                for column, step, origin in zip(
                    columns, self.grid_step.ravel(), self.grid_offset.ravel(), strict=True
                )
            ]
        if math.prod(map(len, columns)) > _MAX_OUTPUTS:
            return self.drawn_outputs
        mesh = np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1)
        return mesh.reshape(-1, *self.shape)

    def _list_outliers(self) -> NDArray[Any]:
        """Outputs in which one entry lies outside its drawn range, to test whether such outputs are
        possible.
        """
        flat = self.drawn_outputs.reshape(len(self.drawn_outputs), -1).astype(float)
        low, high = flat.min(axis=0), flat.max(axis=0)
        many = np.array([1.0, 2.0, 3.0, 10.0, 100.0])[:, None]
        steps = many * self.grid_step.ravel()
        ends = np.concatenate([high + steps, low - steps, high + many * (high - low) + steps])
        rows = np.repeat(flat[:1], ends.size, axis=0)
        columns = np.tile(np.arange(flat.shape[1]), len(ends))
        rows[np.arange(ends.size), columns] = ends.ravel()
        return self._to_grid(rows.reshape(-1, *self.shape))


def _add_rare_outputs(
    dist: OutputDistribution, inputs: CandidateInputs, pool: NDArray[Any], seed: int, samples: int
) -> NDArray[Any]:
    """Adds the outputs that the user lists, and rare ones (with probabilities of about 1e-5) from
    further draws, to ``pool``.

    Outputs are drawn in blocks, and only the different outputs of a block are stored.
    """
    listed = [] if dist.outputs is None else [dist.outputs]
    most = MAX_RARE_OUTPUT_ENTRIES if dist.sampler.takes_size else _SINGLY
    size = min(samples, most // max(1, math.prod(pool.shape[1:])) // len(inputs.probe_inputs))
    streams = np.random.SeedSequence([seed, 1]).spawn(len(inputs.probe_inputs))
    for value, stream in zip(inputs.probe_inputs, streams, strict=True):
        rng = np.random.default_rng(stream)
        for start in range(0, size, _AT_ONCE):
            block = dist.sampler.draw(value, rng, min(_AT_ONCE, size - start))
            listed.append(np.unique(block, axis=0))
    return np.unique(np.concatenate([pool, *listed]), axis=0)


def _fill_grid(column: NDArray[Any], step: float, origin: float) -> NDArray[Any]:
    """Grid values origin + step * n, for integers n, between the ends of ``column``. The result is
    ``column`` itself if there is no grid, or if there are too many values.
    """
    if not step or (column[-1] - column[0]) / step >= _MAX_OUTPUTS:
        return column
    first, last = (round((float(end) - origin) / step) for end in (column[0], column[-1]))
    return np.asarray(origin + step * np.arange(first, last + 1))


def sums_to_one(log_probs: Floats) -> bool:
    """Whether the probabilities of every row of ``log_probs`` sum to 1, within rounding."""
    with np.errstate(over="ignore"):
        return bool(np.allclose(np.exp(log_probs).sum(axis=1), 1.0, rtol=_WHOLE, atol=0.0))


def _sort_by_size(outputs: NDArray[Any]) -> list[Any]:
    """The outputs in ascending order of the sum of the absolute values of their entries. Names keep
    their order.
    """
    if outputs.dtype.kind not in "biuf":
        return list(outputs)
    sizes = np.abs(outputs.reshape(len(outputs), -1).astype(float)).sum(axis=1)
    return list(outputs[np.argsort(sizes, kind="stable")])
