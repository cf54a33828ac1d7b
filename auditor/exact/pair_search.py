"""The search for two inputs that are told apart, steered by Hypothesis; a member scores a pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs
from fedrec_auditor.auditor.exact.candidate_outputs import CandidateOutputs, sums_to_one
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, identity
from fedrec_auditor.auditor.exact.probability_table import exact_bound
from fedrec_auditor.auditor.exact.steering import most_examples, steered
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT

# Any epsilon that a search meets and that is not infinite is below.
_ENDLESS = 1e5


@dataclass(frozen=True, slots=True)
class PairEpsilon:
    """The ``epsilon`` that two inputs show, and its ``witness``.

    Where it is that of one ``output``, more probable under ``a`` than under ``b``, these are kept,
    and the log-probability ``typical`` of outputs drawn, if there may be others to look at.
    """

    epsilon: float = -math.inf
    witness: Witness | None = None
    a: Any = None
    b: Any = None
    output: Any = None
    typical: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSearch(ABC):
    """The largest epsilon of pairs of ``inputs`` at ``delta``, held against a claim of ``epsilon``.

    A member says by what ``measure`` it scores a pair, whether outputs are looked at ``singly``,
    and how many examples Hypothesis makes at ``most``.
    """

    dist: OutputDistribution
    inputs: CandidateInputs
    outputs: CandidateOutputs
    epsilon: float
    delta: float
    seed: int
    seen: dict[Hashable, PairEpsilon] = field(default_factory=dict, repr=False)

    measure: ClassVar[str]
    singly: ClassVar[bool]
    most: ClassVar[int]

    def bound(self) -> Bound:
        """The largest epsilon found; its witness is the simplest pair that breaks the claim."""
        from hypothesis import strategies as st

        inputs = self.inputs
        examples = most_examples(self.most, max(inputs.size, math.prod(self.outputs.shape)))
        output = st.none() | self.outputs.strategy() if self.singly else st.none()
        strategy = st.tuples(inputs.strategy, inputs.strategy, output)

        def score(example: tuple[Any, Any, Any]) -> float:
            return self.look(*example).epsilon

        search = partial(steered, strategy, score, seed=self.seed, examples=examples)
        looked = [self.look(a, b) for a, b in inputs.pairs]
        best = max(looked, key=lambda found: found.epsilon, default=PairEpsilon())
        largest, example = search()
        if largest > best.epsilon:
            best = self.look(*example)
        best = self.refined(best)
        epsilon, source = self.told(best)
        source = f"{source} {self.outputs}, inputs by Hypothesis ({examples} examples)"
        witness = self.event(best)
        if exceeds(epsilon, self.epsilon):
            above = self.epsilon + 1e-9 * max(1.0, self.epsilon)
            above = _ENDLESS if math.isinf(best.epsilon) else above
            largest, example = search(above=above)
            if largest > above:
                shown = self.plainest(self.look(*example), above)
                shown = replace(shown, witness=self.event(shown))
                witness = simplest_witness(shown, replace(best, epsilon=epsilon), self.measure)
        return exact_bound(max(0.0, epsilon), ONE_REPORT, self.delta, source, witness)

    def look(self, a: Any, b: Any, output: Any = None) -> PairEpsilon:
        """The largest epsilon of the pair, either way, and at ``output`` as well if there is one.

        A pair is looked at once: the search returns to it with other outputs, and to shrink.
        """
        key = identity(self.dist.check(a)), identity(self.dist.check(b))
        if key not in self.seen:
            every = self.outputs.every
            log_probs = None if every is None else self.dist.try_log_probs(every, (a, b))
            if log_probs is None or not sums_to_one(log_probs):
                self.seen[key] = self.sought(a, b)
            else:
                self.seen[key] = self.shown(a, b, every, log_probs)
        return self.seen[key]

    @abstractmethod
    def shown(self, a: Any, b: Any, outputs: Any, log_probs: NDArray[np.float64]) -> PairEpsilon:
        """The largest epsilon by ``outputs`` of these log-probabilities, (2, outputs)."""

    @abstractmethod
    def sought(self, a: Any, b: Any) -> PairEpsilon:
        """The same where it is not known which outputs the pair has."""

    @abstractmethod
    def told(self, best: PairEpsilon) -> tuple[float, str]:
        """The epsilon that the largest one found stands for, and the beginning of its source."""

    def refined(self, best: PairEpsilon) -> PairEpsilon:
        """The largest epsilon found, or a larger one near it."""
        return best

    def event(self, found: PairEpsilon) -> Witness | None:
        """The witness of what was found, whose event has the probabilities that it states."""
        return found.witness

    def plainest(self, shown: PairEpsilon, above: float) -> PairEpsilon:
        """The same pair, shown as simply as can be by more than ``above``."""
        return shown


def simplest_witness(
    shown: PairEpsilon | Bound, best: PairEpsilon | Bound, measure: str
) -> Witness | None:
    """That of the simplest pair that breaks a claim; it notes which one shows the largest."""
    if shown.witness is None or best.witness is None or not shown.epsilon < best.epsilon:
        return shown.witness or best.witness
    note = (
        f"{measure} {shown.epsilon:.6g}; the largest is that of {best.witness.input_a} against "
        f"{best.witness.input_b} at {best.witness.output}"
    )
    return replace(shown.witness, note="; ".join(filter(None, (note, shown.witness.note))))
