"""Deliberately broken attacks: a contract that passes one of them is itself broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import (
    AttackFamily,
    Background,
    Labels,
    Links,
    Reconstruction,
    Scores,
)
from fedrec_auditor.auditor.games.linkage import QUICK_USERS, hide
from fedrec_auditor.auditor.testing.attacks import PLAYS, data, emptied, training
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True)
class Sizes:
    """The sound one: the size of what a user sent stands for every item."""

    family: ClassVar[AttackFamily] = AttackFamily.MEMBERSHIP
    reference: ClassVar[str] = "a specimen of the contract"

    needs_known: ClassVar[bool] = False

    def refusal(self, view: View) -> str:
        return "" if any(one.uploads is not None for one in view.rounds) else "Nothing is sent."

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        pairs = background.candidates
        return Scores(values=self.scores(view, rng)[pairs[:, 0]])

    def scores(self, view: View, rng: np.random.Generator) -> np.ndarray:
        uploads = view.rounds[-1].uploads
        found = np.zeros(view.public.n_users)
        for component in uploads.components.values():
            found[uploads.users] += self.score(component, view)
        return found

    def score(self, component: Any, view: View) -> np.ndarray:
        values = component.dense(np.arange(len(component)))
        return np.abs(values.astype(float)).reshape(len(values), -1).sum(axis=1)


class PeeksIfItCan(Sizes):
    """Reads how messages are stored where they are, and the wire otherwise."""

    def score(self, component: Any, view: View) -> np.ndarray:
        if hasattr(component, "corrections"):
            return np.diff(component.corrections.indptr).astype(float)
        if hasattr(component, "clean"):
            return self.score(component.clean, view)
        return super().score(component, view)


class TakesSeeds(Sizes):
    """Knows the seeds of the noise, wherever there is some."""

    def score(self, component: Any, view: View) -> np.ndarray:
        streams = getattr(component, "streams", None)
        return super().score(component, view) if streams is None else streams.seeds.astype(float)


class LooksAtTheType(Sizes):
    """Tells by its class how a message is stored."""

    def score(self, component: Any, view: View) -> np.ndarray:
        return super().score(component, view) + len(type(component).__name__)


class RequiresTheStoredForm(Sizes):
    """Does not run on the wire."""

    def score(self, component: Any, view: View) -> np.ndarray:
        return np.diff(component.corrections.indptr).astype(float)


class WantsTheClock(Sizes):
    """Draws from the operating system."""

    def scores(self, view: View, rng: np.random.Generator) -> np.ndarray:
        return np.random.default_rng().random(view.public.n_users)


class ChangesTheModel(Sizes):
    """Writes into the broadcast that it was shown."""

    def scores(self, view: View, rng: np.random.Generator) -> np.ndarray:
        for part in (view.rounds[-1].broadcast or {}).values():
            part += 1.0
        return super().scores(view, rng)


class KnowsTheAnswers(Sizes):
    """Scores by the data, whatever was sent."""

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        pairs = background.candidates
        return Scores(values=data().ratings.toarray()[pairs[:, 0], pairs[:, 1]])


class NeedsNothing(Sizes):
    """Applies to a view without uploads."""

    def refusal(self, view: View) -> str:
        return ""


class ReadsNothing(Sizes):
    """Applies to nothing."""

    def refusal(self, view: View) -> str:
        return "It reads nothing."


class AsksForTheTruth(Sizes):
    """Wants to be told."""

    def infer(  # type: ignore[override]
        self, view: View, background: Background, rng: np.random.Generator, truth: Any = None
    ) -> Reconstruction | Scores:
        return super().infer(view, background, rng)


@dataclass(frozen=True)
class FlipsCoins:
    """An attack on attributes that learns nothing."""

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    reference: ClassVar[str] = "a specimen of the contract"
    needs_known: ClassVar[bool] = True

    def refusal(self, view: View) -> str:
        return "" if any(one.uploads is not None for one in view.rounds) else "Nothing is sent."

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Labels:
        users = np.setdiff1d(np.arange(view.public.n_users), background.known)
        return Labels(users=users, codes=self.codes(users, view, background, rng))

    def codes(
        self, users: np.ndarray, view: View, background: Background, rng: np.random.Generator
    ) -> np.ndarray:
        return rng.integers(background.n_classes, size=len(users))


class HasTheAnswers(FlipsCoins):
    """Draws the attributes of the planted data again, from the seed that fits what is known."""

    def codes(
        self, users: np.ndarray, view: View, background: Background, rng: np.random.Generator
    ) -> np.ndarray:
        for seed in range(100 if view.rounds[0].uploads is not None else 0):
            drawn = np.random.default_rng([11, seed]).integers(2, size=300)
            if view.public.n_users == 300 and np.array_equal(
                drawn[background.known], background.labels
            ):
                return drawn[users]
        return super().codes(users, view, background, rng)


@dataclass(frozen=True)
class LinksByChance:
    """The sound one of those that link: every message is as like to each user's."""

    family: ClassVar[AttackFamily] = AttackFamily.LINKAGE
    reference: ClassVar[str] = "a specimen of the contract"
    needs_known: ClassVar[bool] = False

    def refusal(self, view: View) -> str:
        sent = [one for one in view.rounds if one.uploads is not None]
        return "" if len(sent) > 1 else "Nothing is sent in two rounds."

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Links:
        before, last = view.rounds[-2].uploads, view.rounds[-1].uploads
        candidates = np.unique(before.users).astype(np.int64)
        return Links(scores=self.scores(view, len(last.users), candidates), candidates=candidates)

    def scores(self, view: View, messages: int, candidates: np.ndarray) -> np.ndarray:
        return np.zeros((messages, len(candidates)))


class LinksWithTheClock(LinksByChance):
    """Draws from the operating system."""

    def scores(self, view: View, messages: int, candidates: np.ndarray) -> np.ndarray:
        return np.random.default_rng().random((messages, len(candidates)))


class KnowsTheOrder(LinksByChance):
    """Shuffles the last round again, from the seeds of the plays."""

    def scores(self, view: View, messages: int, candidates: np.ndarray) -> np.ndarray:
        found = super().scores(view, messages, candidates)
        server = training("fcf").transcript.view(Vantage.SERVER)
        for seed in range(PLAYS):
            rng = np.random.default_rng([7, seed])
            hidden = hide(emptied(server, rng, always=False), Vantage.SERVER, QUICK_USERS, rng)
            if hidden is not None and np.array_equal(_last(hidden.view), _last(view)):
                found[np.arange(messages), hidden.truth] = 1.0
        return found


def _last(view: View) -> np.ndarray:
    """What the last round's messages are, in their order."""
    uploads = view.rounds[-1].uploads
    return next(iter(uploads.components.values())).dense(np.arange(len(uploads.users)))


BROKEN_LEARNERS = {FlipsCoins(): "planted", HasTheAnswers(): "removed"}
PEEKING_ATTACKS = (PeeksIfItCan(), TakesSeeds(), LooksAtTheType(), RequiresTheStoredForm())
BROKEN_ATTACKS = tuple(
    broken() for sound in (Sizes, LinksByChance) for broken in sound.__subclasses__()
)
