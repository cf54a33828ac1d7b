"""All that crossed a boundary during a run, and what each vantage may see of it.

With ``targets.components``, the messages, this is all of ``targets`` that attacks may import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.targets.components import Component, Ints, Reports

Broadcast = Mapping[str, NDArray[Any]]
"""A model as it is sent to all clients: its named parts."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """One round's messages in one batch: whose they are, and their named components.

    ``users`` (n,) are the senders, ascending in a training: positions of users, or of parties where
    several users share one (``Public.parties``). Names of components that belong together begin
    with the same word before a dot: "user.W1", "user.b", "item".
    """

    users: Ints
    components: Mapping[str, Component]

    def __post_init__(self) -> None:
        for name, component in self.components.items():
            if len(component) != len(self.users):
                raise InputError(
                    f"Expected {len(self.users)} messages in component {name!r}, "
                    f"got {len(component)}. Give one a user."
                )


@dataclass(frozen=True, slots=True)
class Round:
    """What one round put on the wire: the model sent down, the messages sent up.

    ``clear`` are messages that even secure aggregation leaves in the clear, linked to senders.
    """

    broadcast: Broadcast | None
    uploads: Uploads
    clear: Uploads | None = None


class Channel(Protocol):
    """The public law of one randomized entry of a message: exact log-probability of an output."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-probability of ``output`` given the private ``value``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """What everybody knows: the algorithm, its settings, and the law of its randomizer.

    ``route`` is the strongest vantage that the protocol gives to anyone who keeps to it; stronger
    ones need a colluding proxy or a broken aggregation. ``parties`` is their number where messages
    come from parties that hold several users' (or some items') ratings, None where every user
    sends for itself.
    """

    algorithm: str
    n_users: int
    n_items: int
    settings: Mapping[str, float] = field(default_factory=dict)
    channel: Channel | None = None
    route: Vantage = Vantage.SERVER
    parties: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """What a vantage sees of one round; None where it sees nothing."""

    broadcast: Broadcast | None
    uploads: Uploads | None = None
    pool: Mapping[str, Component] | None = None
    aggregate: Mapping[str, NDArray[Any]] | None = None
    clear: Uploads | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one vantage may see of a run, with the public knowledge. All that an attack is given."""

    vantage: Vantage
    public: Public
    rounds: tuple[Glimpse, ...]

    def blind(self) -> View:
        """The same view without any upload: what the adversary had before the client spoke."""
        return replace(
            self,
            rounds=tuple(Glimpse(broadcast=glimpse.broadcast) for glimpse in self.rounds),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of linked components in order of appearance: names up to their first dot."""
        return tuple(
            dict.fromkeys(
                name.partition(".")[0]
                for glimpse in self.rounds
                if glimpse.uploads is not None
                for name in glimpse.uploads.components
            )
        )

    def only(self, group: str) -> View:
        """The same view with the linked components of one group only."""

        def cut(uploads: Uploads | None) -> Uploads | None:
            if uploads is None:
                return None
            kept = {n: c for n, c in uploads.components.items() if n.partition(".")[0] == group}
            return Uploads(users=uploads.users, components=MappingProxyType(kept))

        return replace(
            self, rounds=tuple(replace(g, uploads=cut(g.uploads), clear=None) for g in self.rounds)
        )

    def component(self, name: str) -> tuple[tuple[Uploads, Component], ...]:
        """The linked uploads that carry ``name``, round by round; empty if none is seen."""
        return tuple(
            (glimpse.uploads, glimpse.uploads.components[name])
            for glimpse in self.rounds
            if glimpse.uploads is not None and name in glimpse.uploads.components
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """All that crossed a boundary in one run."""

    public: Public
    rounds: tuple[Round, ...]
    release: Broadcast | None = None

    def view(self, vantage: Vantage, rng: np.random.Generator | None = None) -> View:
        """What ``vantage`` sees. The shuffled view needs ``rng`` for its permutation.

        Peers see every broadcast and last the release: it is sent to them to recommend from, and
        follows from the last uploads, not from the broadcasts before.
        """
        if vantage is Vantage.SERVER:
            glimpses = tuple(
                Glimpse(broadcast=r.broadcast, uploads=r.uploads, clear=r.clear)
                for r in self.rounds
            )
        elif vantage is Vantage.SHUFFLED:
            if rng is None:
                raise InputError("Expected rng for the shuffled view, got None. Pass a Generator.")
            glimpses = tuple(
                Glimpse(broadcast=r.broadcast, pool=_shuffle(r.uploads, rng)) for r in self.rounds
            )
        elif vantage is Vantage.AGGREGATE:
            glimpses = tuple(
                Glimpse(
                    broadcast=r.broadcast,
                    aggregate=MappingProxyType(
                        {name: c.total() for name, c in r.uploads.components.items()}
                    ),
                    clear=r.clear,
                )
                for r in self.rounds
            )
        elif vantage is Vantage.PEERS:
            models = (*(r.broadcast for r in self.rounds), self.release)
            glimpses = tuple(Glimpse(broadcast=model) for model in models)
        else:
            glimpses = (Glimpse(broadcast=self.release),)
        return View(vantage=vantage, public=self.public, rounds=glimpses)


def _shuffle(uploads: Uploads, rng: np.random.Generator) -> Mapping[str, Component]:
    """The same messages without their senders.

    What one message carries stays together; reports are messages of their own and are split up.
    """
    order = rng.permutation(len(uploads.users))
    pool: dict[str, Component] = {}
    for name, component in uploads.components.items():
        if isinstance(component, Reports):
            single = component.split()
            pool[name] = single.take(rng.permutation(len(single)))
        else:
            pool[name] = component.take(order)
    return MappingProxyType(pool)
