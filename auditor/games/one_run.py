"""The one-run game: many canary users in a single training, a coin for each one's history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.auditor.games.canaries import Canaries
from fedrec_auditor.auditor.games.draws import Draws, Features
from fedrec_auditor.auditor.games.scorer import Scorer
from fedrec_auditor.auditor.worlds.measure import Measured, confirmed
from fedrec_auditor.auditor.worlds.scores import OneRunScores
from fedrec_auditor.targets.compute import DEFAULT, Compute, one_thread
from fedrec_auditor.targets.systems.base import Target

COINS = "coins"
"""The features that are no vantage's: 1 for a canary with its first history, 0 with its second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """A training of ``target`` on a crowd and its ``canaries``, as some vantages see it.

    The adversary knows the crowd, both histories of every canary, and the broadcast at which it
    expects: the first, and for the release that itself.
    """

    target: Target
    canaries: Canaries
    vantages: tuple[Vantage, ...]
    compute: Compute = DEFAULT

    @property
    def messages(self) -> int:
        """All users' of the training."""
        return self.canaries.crowd.n_users + len(self.canaries)

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """One training, whatever ``size``: features (m, f) by vantage, and ``COINS`` (m, 1)."""
        tossing, training, seeing, guessing = np.random.default_rng(seed).spawn(4)
        first = tossing.random(len(self.canaries)) < 0.5
        data = self.canaries.population(first)
        transcript = self.target.run(data, training, None, self.compute).transcript
        found = {COINS: first[:, None].astype(np.float64)}
        scorers: dict[bool, Scorer] = {}
        # Of messages that are linked nothing is said by others.
        single = self.vantages == (Vantage.SERVER,) and transcript.public.parties is None
        others = self.canaries.crowd.take(np.arange(0)) if single else self.canaries.crowd
        with one_thread():
            for vantage in self.vantages:
                # Of sums only what is looked at is made, of what is sent: no order changes them.
                summed = vantage in (Vantage.AGGREGATE, Vantage.SHUFFLED)
                view = transcript.view(Vantage.SERVER if summed else vantage, seeing)
                last, features = vantage is Vantage.RELEASE, np.zeros((len(first), 0))
                if view.rounds:
                    if last not in scorers:
                        broadcast = view.rounds[0].broadcast
                        scorers[last] = Scorer.of(
                            self.target, self.canaries, others, broadcast, guessing, self.compute
                        )
                    features = scorers[last].features(view, vantage)
                nothing = np.zeros((len(first), 1))
                found[str(vantage)] = features if features.size else nothing
        return found


def measured(
    draws: Draws,
    names: tuple[str, str],
    scope: Scope,
    claims: Sequence[Claim],
    *,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
) -> Measured:
    """Bound epsilon from below by one training, and by a second one if it refutes a claim."""

    def bounds(confidences: Sequence[float], stream: np.random.Generator) -> tuple[Bound, ...]:
        scores, coins = (draws.features(seen, 0, 1, stream) for seen in (str(scope.vantage), COINS))
        run = OneRunScores.of(scores, coins[:, 0] > 0.5)
        seed = int(stream.integers(2**32))
        return tuple(
            _named(run.bound(delta=delta, confidence=each, scope=scope, seed=seed), names)
            for each in confidences
        )

    return confirmed(bounds, claims, confidence=confidence, rng=rng)


def _named(bound: Bound, names: tuple[str, str]) -> Bound:
    """The bound with the two histories in its witness."""
    if bound.witness is None:
        return bound
    witness = replace(bound.witness, input_a=names[0], input_b=names[1])
    return replace(bound, witness=witness)
