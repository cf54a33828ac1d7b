"""The local game: the client's own code, sampled in two neighbouring worlds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE
from fedrec_auditor.attacks.base import Attack, Background, Scores
from fedrec_auditor.auditor.estimators.base import Estimator
from fedrec_auditor.auditor.estimators.clopper_pearson import (
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from fedrec_auditor.reports.record import AttackRow
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.systems.base import Challenge
from fedrec_auditor.targets.transcript import Public, RoundView, Uploads, View


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGame:
    """What one local game gives: lower bounds on epsilon, and how often the world was guessed.

    ``bound`` holds at the audit's confidence, ``alarm`` at the one at which a measurement
    contradicts a proof.
    """

    bound: Bound
    alarm: Bound
    row: AttackRow


def play(
    challenge: Challenge,
    attack: Attack,
    estimator: Estimator,
    *,
    name: str,
    samples: int,
    delta: float,
    confidence: float,
    row_confidence: float,
    rng: np.random.Generator,
) -> LocalGame:
    """Sample ``samples`` uploads a world from the client's code, score them, bound epsilon.

    ``confidence`` is that of the bound, ``row_confidence`` that of the success rate's interval.
    """
    background = Background(worlds=challenge.values)
    scores = []
    for world in (0, 1):
        profile = challenge.profiles.take(np.array([world]))
        uploads = challenge.target.upload(profile, challenge.broadcast, rng, samples)
        view = _view(challenge, challenge.read(uploads))
        inference = attack.infer(view, background, rng)
        if not isinstance(inference, Scores):
            raise TypeError(f"Expected Scores from {name}, got {type(inference).__name__}.")
        scores.append(inference.values)
    bound, alarm = (
        estimator.bound(
            scores[0], scores[1], delta=delta, confidence=level, scope=challenge.scope, rng=rng
        )
        for level in (confidence, ALARM_CONFIDENCE)
    )
    return LocalGame(
        bound=_in_words(bound, challenge, attack),
        alarm=_in_words(alarm, challenge, attack),
        row=_guesses(challenge, attack, name, scores[0], scores[1], row_confidence),
    )


def _view(challenge: Challenge, symbols: NDArray[np.int64]) -> View:
    uploads = Uploads(np.arange(len(symbols)), {"symbol": Dense(symbols)})
    public = Public(
        algorithm=challenge.target.name,
        n_users=1,
        n_items=challenge.profiles.n_items,
        channel=challenge.channel,
    )
    seen = RoundView(broadcast=challenge.broadcast, uploads=uploads)
    return View(vantage=Vantage.SERVER, public=public, rounds=(seen,))


def _in_words(bound: Bound, challenge: Challenge, attack: Attack) -> Bound:
    """The bound with its worlds named, instead of world a and world b."""
    witness = bound.witness
    if witness is None:
        return bound
    words = {"world a": challenge.inputs[0], "world b": challenge.inputs[1]}
    return replace(
        bound,
        source=f"{bound.source}, scored by the {attack.reference.split(',')[0]}",
        witness=replace(witness, input_a=words[witness.input_a], input_b=words[witness.input_b]),
    )


def _guesses(
    challenge: Challenge,
    attack: Attack,
    name: str,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    confidence: float,
) -> AttackRow:
    """Success at guessing the world, ties counted half, with a Clopper-Pearson interval."""
    n = len(first) + len(second)
    ties = np.count_nonzero(first == 0) + np.count_nonzero(second == 0)
    right = np.count_nonzero(first > 0) + np.count_nonzero(second < 0) + ties / 2
    alpha = (1 - confidence) / 2
    return AttackRow(
        target=challenge.target.name,
        attack=name,
        family=str(attack.family),
        vantage=attack.vantage,
        metric="accuracy",
        value=right / n,
        ci_low=float(clopper_pearson_lower(np.floor(right), n, alpha)),
        ci_high=float(clopper_pearson_upper(np.ceil(right), n, alpha)),
        confidence=confidence,
        baseline=0.5,
        baselines={"coin flip": 0.5},
        n=n,
        subject="uploads",
        reference=attack.reference,
        note=f"tells '{challenge.inputs[0]}' from '{challenge.inputs[1]}' by one upload",
    )
