"""The draws that choose what to look at: two inputs, and a rule that guesses between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification.sampled.choice import SIMPLER, best_guess, promise
from fedrec_auditor.auditor.verification.sampled.guess import (
    Foreseen,
    Guess,
    Stake,
    Statistic,
    cuts_between,
    histogram,
)
from fedrec_auditor.auditor.verification.sampled.guesses import pilot_size
from fedrec_auditor.auditor.verification.sampled.score import learnt_scores
from fedrec_auditor.auditor.verification.sampled.statistic import (
    Entry,
    Outcome,
    as_floats,
    place_in_period,
    plain_name,
    plain_numbers,
)
from fedrec_auditor.auditor.verification.subject import Subject, UnevenOutputs

MOST_ENTRIES = 1 << 24
"""Most numbers kept of all inputs together."""
# Outputs are told apart one by one if they are at most this many, and each comes often enough.
_MOST_OUTCOMES = 4096
_REPEATS = 8
# So few outcomes are told apart and nothing else is tried; so many entries of strings are named.
_ALL = 16
# Pairs of inputs that are looked at closely, of those that look best at a glance.
_CLOSELY = 4
# The share of a pilot on which scores are learnt, its inverse; the rest chooses among them.
_LEARNING = 2
# The level at which the quantile of a foreseen bound is 0: no luck is taken off.
_EVEN = 0.5


@dataclass(frozen=True, slots=True)
class Pilot:
    """Outputs of each input, each (n, *shape), all of one kind."""

    outputs: tuple[NDArray[Any], ...]

    @classmethod
    def drawn(
        cls, subject: Subject, inputs: list[Any], samples: int, seed: np.random.SeedSequence
    ) -> Pilot:
        """A tenth of ``samples`` for each input, within limits; InputError if shapes differ."""
        size = pilot_size(samples)
        drawn = []
        for value, child in zip(inputs, seed.spawn(len(inputs)), strict=True):
            parts: list[NDArray[Any]] = []
            for part in subject.blocks(value, child, size):
                parts.append(part)
                if part.shape[1:] != parts[0].shape[1:]:
                    raise InputError(
                        f"Expected outputs of one shape for the input {value!r}, got "
                        f"{parts[0].shape[1:]} and {part.shape[1:]}. Return the same every time."
                    )
                entries = max(1, part[0].size) * len(inputs)
                size = min(size, max(2, MOST_ENTRIES // entries))
                if sum(map(len, parts)) >= size:
                    break
            drawn.append(np.concatenate(parts)[:size])
        shapes = sorted({outputs.shape[1:] for outputs in drawn})
        if len(shapes) != 1:
            raise UnevenOutputs(
                f"Expected outputs of one shape, got {shapes}. "
                "Return the same shape for every input."
            )
        if any(outputs.dtype.kind in "US" for outputs in drawn):
            drawn = [outputs.astype(str) for outputs in drawn]
        return cls(tuple(outputs[:size] for outputs in drawn))

    @property
    def size(self) -> int:
        """Outputs of each input."""
        return len(self.outputs[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output."""
        return self.outputs[0].shape[1:]

    def choose(self, stake: Stake) -> tuple[int, int, Guess | None]:
        """The pair of inputs and the rule with the largest bound foreseen; None if none shows.

        Where caution sees nothing in any rule, less is asked, and at last any rule will do: fresh
        draws will tell, and a weak leak is not missed for want of a large pilot.
        """
        statistics = self._statistics()
        pairs = self._pairs(statistics, stake)
        best, chosen = Foreseen(epsilon=0.0), (0, 1)
        trusting = replace(stake, caution=0.0)
        last = replace(trusting, alpha=_EVEN)
        for hopes in (stake, trusting, last):
            if hopes is last:
                best = Foreseen(epsilon=float(np.finfo(float).min))
            for a, b in pairs:
                for found in self._closely(a, b, statistics, hopes):
                    if found.epsilon > best.epsilon + SIMPLER * max(best.epsilon, 0.0):
                        best, chosen = found, (a, b)
            if best.guess is not None:
                break
        return *chosen, best.guess

    def _statistics(self) -> list[Statistic]:
        """What needs no pair: which outcome it is where they are few, else numbers and sums."""
        sample = np.concatenate(self.outputs)
        kind, width = sample.dtype.kind, sample[0].size
        if width == 0:
            return []
        if kind in "US":
            return self._names(sample)
        most = min(_MOST_OUTCOMES, len(sample) // _REPEATS)
        outcome = Outcome.seen(sample, most) if kind != "f" or width > 1 else None
        if outcome is not None and len(outcome.keys) <= _ALL:
            return [outcome]
        numbers = plain_numbers(width)
        if width == 1:
            numbers += [place_in_period(as_floats(sample)[:, 0])]
        return [outcome, *numbers] if outcome is not None else [*numbers]

    def _learns(self, statistics: list[Statistic]) -> bool:
        """Whether outputs are vectors of numbers, of more than a few outcomes."""
        numbers = self.outputs[0].dtype.kind not in "US"
        return numbers and len(statistics) > 1 and prod(self.shape) > 1

    def _names(self, sample: NDArray[Any]) -> list[Statistic]:
        """Which string it is, or which strings; and which string one entry of it is."""
        flat = sample.reshape(len(sample), -1)
        found: list[Statistic] = []
        whole = Outcome.seen(sample, len(sample))
        if whole is not None:
            found.append(whole)
        for entry in range(min(flat.shape[1], _ALL) if flat.shape[1] > 1 else 0):
            outcome = Outcome.seen(flat[:, entry], len(sample))
            if outcome is not None:
                found.append(Entry(plain_name(entry, self.shape), entry, outcome))
        return found

    def _pairs(self, statistics: list[Statistic], stake: Stake) -> list[tuple[int, int]]:
        """The pairs that look best at a glance, on one set of cuts for all inputs."""
        pairs = list(itertools.combinations(range(len(self.outputs)), 2))
        if len(pairs) <= _CLOSELY:
            return pairs
        promised = np.zeros(len(pairs))
        stake = replace(stake, caution=stake.caution + np.sqrt(2 * np.log(len(pairs))))
        for statistic in statistics:
            values = [statistic.of(outputs) for outputs in self.outputs]
            cuts = cuts_between(np.concatenate(values))
            counts = [histogram(row, cuts).astype(np.float64) for row in values]
            for position, (a, b) in enumerate(pairs):
                promised[position] = max(promised[position], promise(counts[a], counts[b], stake))
        best = np.argsort(-promised, kind="stable")[:_CLOSELY].tolist()
        if self._learns(statistics):
            means = np.stack([as_floats(outputs).mean(axis=0) for outputs in self.outputs])
            spread = np.maximum(np.stack([as_floats(o).std(axis=0) for o in self.outputs]), 1e-12)
            apart = [
                np.sum(((means[a] - means[b]) / (spread[a] + spread[b])) ** 2) for a, b in pairs
            ]
            best += np.argsort(-np.array(apart), kind="stable")[:_CLOSELY].tolist()
        return [pairs[i] for i in dict.fromkeys(best)]

    def _closely(
        self, a: int, b: int, statistics: list[Statistic], stake: Stake
    ) -> Iterator[Foreseen]:
        for statistic in statistics:
            yield best_guess(
                statistic, statistic.of(self.outputs[a]), statistic.of(self.outputs[b]), stake
            )
        if self._learns(statistics):
            learning = self.size // _LEARNING
            one, other = self.outputs[a], self.outputs[b]
            for score in learnt_scores(
                as_floats(one[:learning]), as_floats(other[:learning]), self.shape
            ):
                yield best_guess(score, score.of(one[learning:]), score.of(other[learning:]), stake)
