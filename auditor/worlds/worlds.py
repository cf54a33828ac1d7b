"""Worlds that differ in a secret: what every lower bound from samples is measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Scope, Witness
from fedrec_auditor.auditor.machine.progress import stage
from fedrec_auditor.auditor.worlds.fields import Fields
from fedrec_auditor.targets.wrapped.client import message_of

BLOCK, BLOCK_ENTRIES = 1 << 16, 1 << 22
"""Most outputs drawn at once, and most entries of them: what bounds the memory of a measurement,
whatever the number of draws. The first block of a stream is small, to learn how wide outputs are.
"""
_FIRST_BLOCK = 64


class UnevenOutputs(InputError):
    """Outputs whose shape depends on the world, where one shape was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """Worlds that differ in what is secret, and how to draw what an adversary sees in each.

    Parameters
    ----------
    names : the worlds in words, two or more; an estimator holds two of them against each other.
    scope : what a bound that is measured here speaks of.
    draw : ``draw(world, size, rng)`` runs world number ``world`` ``size`` times, independently, and
        returns one output a run, (size, *shape): numbers, booleans or strings. The same arguments
        give the same outputs.
    statistic : what one output is, in words; empty if it is the whole output of a randomizer.
    fields : what the entries of an output encode, if it was a structure; see ``Fields``.
    stored : the outputs of each world, where they were made before; ``draw`` then hands out each
        once, in a random order. None where they are drawn afresh.
    coins : ``coins(rng)`` makes one run with many canaries in it, and returns a score of each,
        (m, *shape), and which of them it included by a fair coin, (m,). There is then nothing to
        ``draw``, and the worlds are a canary in and out.
    mixed : ``mixed(worlds, rng)`` runs the worlds of these numbers (n,) in turn, and returns the
        outputs of each, in their order, as ``sample`` does. None where the order of runs cannot
        matter: simulations that depend on their seed alone, and what is stored.

    Examples
    --------
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> coins = Worlds(
    ...     names=("a fair coin", "a biased coin"),
    ...     scope=any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT),
    ...     draw=lambda world, size, rng: rng.random(size) < (0.5, 0.9)[world],
    ... )
    >>> coins.sample(1, 3, np.random.default_rng(0))
    array([ True,  True,  True])
    """

    names: tuple[str, ...]
    scope: Scope
    draw: Callable[[int, int, np.random.Generator], Any]
    statistic: str = ""
    fields: Fields | None = None
    stored: tuple[NDArray[Any], ...] | None = None
    coins: Callable[[np.random.Generator], tuple[NDArray[Any], NDArray[np.bool_]]] | None = None
    mixed: Callable[[NDArray[np.intp], np.random.Generator], Mapping[int, NDArray[Any]]] | None = (
        None
    )

    def sizes(self, samples: int) -> tuple[int, ...]:
        """How many outputs of each world to draw: ``samples``, or all of those that are stored."""
        if self.stored is None:
            return (samples,) * len(self.names)
        return tuple(map(len, self.stored))

    def said(self, event: str) -> str:
        """An event of one output in words, behind what an output is."""
        return f"{self.statistic}: {event}" if self.statistic else event

    def witness(
        self, pair: tuple[int, int], event: str, chances: tuple[float, float], note: str
    ) -> Witness:
        """An event in words, and its chances in two worlds, the likelier first."""
        (one, other), (p, q) = pair, chances
        return Witness(
            input_a=self.names[one],
            input_b=self.names[other],
            output=event,
            probability_a=float(p),
            probability_b=float(q),
            note=note,
        )

    def sample(self, world: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """``size`` outputs of one world, (size, *shape).

        InputError for another number of outputs, ragged ones, objects or NaN.
        """
        return checked_outputs(self.draw(world, size, rng), size, self._label(world))

    def drawn(
        self,
        sizes: Mapping[int, int],
        streams: Sequence[np.random.Generator],
        shape: tuple[int, ...] | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """So many outputs of each of these worlds, in blocks with their world; see ``BLOCK``.

        Where ``mixed`` draws them the worlds come in random order: what drifts with time, or with
        the number of calls, is then independent of the world. Else they come one after the other.
        ``streams`` are one a world; each block is drawn from a generator of its own. InputError
        unless all outputs of a world have one shape: ``shape`` if it is given.
        """
        mixed, numbers = self.mixed, [*sizes]
        shapes = dict.fromkeys(numbers, shape)
        groups = [numbers] if mixed else [[number] for number in numbers]
        for together, rng in zip(groups, streams, strict=False):
            left = np.array([sizes[world] for world in together])
            total, step = int(left.sum()), _FIRST_BLOCK
            while left.any():
                taken, entries = np.minimum(left, step), 1
                if mixed is None:
                    block = self.sample(together[0], int(taken[0]), rng.spawn(1)[0])
                    blocks: Mapping[int, NDArray[Any]] = {together[0]: block}
                else:  # the next of a random order of all that are left
                    taken = rng.multivariate_hypergeometric(left, min(step, int(left.sum())))
                    order = rng.permutation(np.repeat(numbers, taken))
                    blocks = mixed(order, rng.spawn(1)[0])
                for world, block in blocks.items():
                    if (known := shapes[world]) is not None:
                        check_one_shape(self._label(world), known, block.shape[1:])
                    shapes[world] = block.shape[1:]
                    entries = max(entries, block[0].size)
                    yield world, block
                left = left - taken
                stage("draw", total - int(left.sum()), total)
                step = min(BLOCK, max(1, BLOCK_ENTRIES // entries))

    def _label(self, world: int) -> str:
        return f"world {world} ({self.names[world]})"


def _detached(drawn: Any) -> Any:
    """Tensors without the record of how they were computed, alone or in a list."""
    if isinstance(drawn, list) and drawn and hasattr(drawn[0], "detach"):
        return [_detached(each) for each in drawn]
    detach = getattr(drawn, "detach", None)
    return detach().cpu() if callable(detach) else drawn


def check_seed(seed: int) -> int:
    """Return ``seed`` if it is at least 0; InputError otherwise."""
    if seed < 0:
        raise InputError(f"Expected a seed of at least 0, got seed={seed!r}. Give 0, say.")
    return seed


def check_one_shape(origin: str, *shapes: tuple[int, ...]) -> None:
    """InputError, which names the ``origin``, unless all are the same."""
    first, *others = dict.fromkeys(shapes)
    if others:
        raise InputError(
            f"Expected outputs of one shape for {origin}, got {first} and {others[0]}. "
            "Return the same shape every time."
        )


def as_array(drawn: Any, origin: str) -> NDArray[Any]:
    """What was drawn, as an array; InputError where it is none, which names the ``origin``."""
    try:
        return np.asarray(_detached(drawn))
    except ValueError as error:
        raise InputError(
            f"Expected outputs of one shape for {origin}, got ragged ones. "
            "Return the same shape every time."
        ) from error
    except Exception as error:  # whatever a foreign class raises when it is to become an array
        raise InputError(
            f"Expected outputs that numpy reads for {origin}, got {type(error).__name__}: "
            f"{message_of(error)}. Return an array."
        ) from error


def checked_outputs(drawn: Any, size: int, origin: str) -> NDArray[Any]:
    """What was drawn, as an array (size, *shape) of numbers, booleans or strings.

    InputError, which names the ``origin``, for another number of outputs, ragged ones, objects or
    NaN.
    """
    array = as_array(drawn, origin)
    if array.dtype.kind == "S":  # one letter a byte, whatever the bytes mean
        array = np.char.decode(array, "latin-1")
    if array.ndim == 0 or len(array) != size:
        came = f"a {type(drawn).__name__}" if array.dtype == object else f"shape {array.shape}"
        raise InputError(
            f"Expected {size} outputs for {origin}, got {came}. "
            "Return `size` outputs along the first axis."
        )
    if array.dtype.kind not in "biufUS":
        objects = array.dtype == object
        types = [type(each).__name__ for each in array.ravel()[:BLOCK]] if objects else []
        kind = " and ".join(dict.fromkeys(types)) or array.dtype.name
        raise InputError(
            f"Expected numbers or strings for {origin}, got {kind}. "
            "Return an encoding of it: the numbers in it as an array, or its JSON."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"Expected outputs without NaN for {origin}, got some. Mend the callable.")
    return array
