"""Reports of several users, of which a shuffle leaves how often each was sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Critical, Domain, Mechanism
from fedrec_auditor.targets.mechanisms.parts.finite import every_input, every_output, which

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST = 2**16


@dataclass(frozen=True, slots=True)
class ShuffledReports:
    """One user's report among those of ``others``, all by one mechanism: the histogram of reports.

    The value is one user's input; ``others`` holds the inputs of all others, fixed, as nested
    tuples of numbers. The output counts every possible report, in the order of ``reports``; it is
    all that a uniform shuffle leaves. Its law is exact, by adding one user after another, for
    mechanisms of finitely many inputs and reports and up to 2^16 histograms. A lower bound on
    epsilon for this law is one for the shuffle; an upper bound is not, as other others may hide
    the user less. For many users with binary reports see ``Shuffled``.
    """

    mechanism: Mechanism
    others: tuple[Any, ...]
    reports: NDArray[Any] = field(init=False, repr=False, compare=False)
    _rest: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        every_input(self.mechanism)
        reports = every_output(self.mechanism)
        if comb(self.n_users + len(reports) - 1, self.n_users) > _MOST or (
            self.n_users ** (len(reports) - 1) > 64 * _MOST
        ):
            raise InputError(
                f"Expected few users and few reports, got {self.n_users} users with "
                f"{len(reports)} possible reports each. Take fewer, or use Shuffled for bits."
            )
        object.__setattr__(self, "reports", reports)
        object.__setattr__(self, "_rest", self._law_of_others())

    @property
    def n_users(self) -> int:
        """All users."""
        return len(self.others) + 1

    @property
    def domain(self) -> Domain:
        """The inner domain."""
        return self.mechanism.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """A count a possible report."""
        return (len(self.reports),)

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Draw histograms, int64 of shape (*size, number of reports)."""
        values = self.domain.spread(value, size)
        place = values.ndim - len(self.domain.shape)
        batch = values.shape[:place]
        others = np.broadcast_to(self._others, (*batch, *self._others.shape))
        everyone = np.concatenate([others, np.expand_dims(values, place)], axis=place)
        sent = which(self.mechanism.randomize(everyone, rng), self.reports)
        kinds = len(self.reports)
        codes = (
            sent.reshape(-1, self.n_users) + kinds * np.arange(sent.size // self.n_users)[:, None]
        )
        counts = np.bincount(codes.ravel(), minlength=kinds * len(codes))
        return counts.reshape(*batch, kinds)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(histogram | value), broadcast: the user sent one report, the others the rest.

        -inf for a histogram that cannot be.
        """
        counts, values = np.asarray(output), self.domain.check(value)
        place = values.ndim - len(self.domain.shape)
        own = self.mechanism.log_prob(self.reports, np.expand_dims(values, place))
        possible = (counts >= 0).all(axis=-1) & (counts == np.rint(counts)).all(axis=-1)
        possible &= counts.sum(axis=-1) == self.n_users
        sent = possible[..., None] & (counts > 0)
        strides = np.append(self.n_users ** np.arange(len(self.reports) - 1)[::-1], 0)
        rest = np.where(sent, (counts @ strides)[..., None] - strides, 0).astype(np.int64)
        law = np.where(sent, self._rest.ravel()[rest], -np.inf)
        return np.asarray(np.logaddexp.reduce(own + law, axis=-1))

    def critical(self) -> Critical:
        """All inputs, all histograms."""
        kinds = range(len(self.reports))
        sent = np.array([*combinations_with_replacement(kinds, self.n_users)])
        return Critical(
            inputs=every_input(self.mechanism),
            outputs=(sent[..., None] == np.arange(len(self.reports))).sum(axis=1),
            exhaustive=True,
        )

    def event(self) -> DpEvent:
        """One shuffle of reports of the epsilon that the inner law has."""
        from dp_accounting import NonPrivateDpEvent

        from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent

        inputs = every_input(self.mechanism)
        law = self.mechanism.log_prob(self.reports[None], inputs[:, None])
        law = law[:, ~np.isneginf(law).all(axis=0)]
        epsilon = float((law.max(axis=0) - law.min(axis=0)).max())
        return ShuffledDpEvent(epsilon, self.n_users) if epsilon < np.inf else NonPrivateDpEvent()

    @property
    def _others(self) -> NDArray[Any]:
        return np.asarray(self.others, dtype=np.float64).reshape(-1, *self.domain.shape)

    def _law_of_others(self) -> NDArray[np.float64]:
        """ln P of the others' histogram, at its counts of all reports but the last."""
        each = self.mechanism.log_prob(self.reports[None], self._others[:, None])
        law = np.full((self.n_users,) * (len(self.reports) - 1), -np.inf)
        law[(0,) * law.ndim] = 0.0
        for *first, last in each:
            before, law = law, law + last
            for axis, log_prob in enumerate(first):
                up, down = np.moveaxis(law, axis, 0)[1:], np.moveaxis(before, axis, 0)[:-1]
                np.logaddexp(up, down + log_prob, out=up)
        return law
