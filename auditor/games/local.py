"""The local game: the client's own code, sampled in two neighbouring worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.attacks.base import Distinguisher
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import (
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from fedrec_auditor.auditor.worlds.measure import Measured, measure
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.reports.rows import AttackRow
from fedrec_auditor.targets.systems.base import UploadGame


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGame:
    """What one local game gives: lower bounds on epsilon, and how often the world was guessed."""

    measured: Measured
    row: AttackRow | None


def play(
    challenge: UploadGame,
    distinguisher: Distinguisher,
    estimator: Estimator,
    *,
    name: str,
    claims: Sequence[Claim],
    samples: int,
    delta: float,
    confidence: float,
    row_confidence: float,
    rng: np.random.Generator,
) -> LocalGame:
    """Sample ``samples`` uploads a world from the client's code, score them, bound epsilon.

    ``confidence`` is that of the bound, ``row_confidence`` that of the success rate's interval; a
    bound that refutes one of ``claims`` is measured twice. Where no distribution of the upload
    is public, the estimator sees what was read of it as it is, and there is no row.
    """
    scored = _Scored(challenge, distinguisher, 2 * samples)
    known = challenge.channel is not None
    worlds = Worlds(
        names=challenge.inputs,
        scope=challenge.scope,
        draw=scored if known else scored.read,
        statistic=f"score of the {distinguisher.reference.split(',')[0]}" if known else "",
    )
    measured = measure(
        worlds, claims, estimator, delta=delta, confidence=confidence, samples=samples, rng=rng
    )
    return LocalGame(measured=measured, row=scored.row(name, row_confidence) if known else None)


@dataclass(slots=True)
class _Scored:
    """Uploads of a world, scored; counts the first ``most`` guesses by the sign of the score.

    Uploads of a measurement that was repeated are not counted: whether there are any depends on
    the others. A score of 0 is half a right guess.
    """

    challenge: UploadGame
    distinguisher: Distinguisher
    most: int
    guesses: int = field(default=0, init=False)
    right: float = field(default=0.0, init=False)

    def read(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """What is looked at in ``size`` uploads: one symbol each, (size,)."""
        game = self.challenge
        profile = game.profiles.take(np.array([world]))
        return game.read(game.target.upload(profile, game.broadcast, rng, size))

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Scores of ``size`` uploads, larger for the first world, (size,)."""
        channel = self.challenge.channel
        assert channel is not None
        symbols = self.read(world, size, rng)
        scores = self.distinguisher.score(symbols, channel, self.challenge.values)
        counted = scores[: self.most - self.guesses]
        mine = np.count_nonzero(counted < 0 if world else counted > 0)
        self.right += mine + np.count_nonzero(counted == 0) / 2
        self.guesses += len(counted)
        return scores

    def row(self, name: str, confidence: float) -> AttackRow:
        """Success at guessing the world, with a Clopper-Pearson interval."""
        game, attack, n = self.challenge, self.distinguisher, self.guesses
        alpha = (1 - confidence) / 2
        return AttackRow(
            target=game.target.name,
            attack=name,
            family=str(attack.family),
            vantage=attack.vantage,
            metric="accuracy",
            value=self.right / n,
            ci_low=float(clopper_pearson_lower(np.floor(self.right), n, alpha)),
            ci_high=float(clopper_pearson_upper(np.ceil(self.right), n, alpha)),
            confidence=confidence,
            baseline=0.5,
            baselines={"coin flip": 0.5},
            n=n,
            subject="uploads",
            reference=attack.reference,
            note=f"tells '{game.inputs[0]}' from '{game.inputs[1]}' by one upload",
        )
