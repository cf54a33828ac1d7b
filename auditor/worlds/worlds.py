"""Worlds that differ in a secret, from whose outputs every sampled lower bound is measured."""

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
"""Most outputs of a block, and most entries in it: the limits of memory for any number of draws.
The first block of a stream is small, because the width of outputs is not known before it."""
_FIRST_BLOCK = 64


class UnevenOutputs(InputError):
    """Outputs have a shape that depends on the world, where one shape is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """Neighbouring inputs of a system (worlds), and functions that draw the adversary's view.

    Parameters
    ----------
    names : the worlds in words, two or more; an estimator compares two of them.
    scope : scope of a bound that is measured on these worlds.
    draw : ``draw(world, size, rng)`` runs world number ``world`` ``size`` times, independently, and
        returns one output per run, (size, *shape): numbers, booleans or strings. The same arguments
        give the same outputs.
    statistic : name of the output, in words; empty if it is the whole output of a randomizer.
    fields : the structure that the entries of an output encode, if any; see ``Fields``.
    stored : the outputs of each world, if they exist already; ``draw`` then returns each of them
        once, in a random order. None if outputs are drawn afresh.
    coins : ``coins(rng)`` makes one run with many canaries, and returns a score of each canary,
        (m, *shape), and whether a fair coin included it, (m,). Then ``draw`` is not available, and
        the two worlds are a canary in and out.
    mixed : ``mixed(worlds, rng)`` runs the worlds with these numbers (n,) in turn, and returns the
        outputs of each world in order, as ``sample`` does. None if the order of runs cannot matter:
        simulations that depend on their seed alone, and stored outputs.

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
        """Number of outputs to draw per world: ``samples``, or all stored outputs."""
        if self.stored is None:
            return (samples,) * len(self.names)
        return tuple(map(len, self.stored))

    def describe(self, event: str) -> str:
        """Describes an event of one output: the name of the output, then ``event``."""
        return f"{self.statistic}: {event}" if self.statistic else event

    def witness(
        self, pair: tuple[int, int], event: str, chances: tuple[float, float], note: str
    ) -> Witness:
        """A distinguishing event with its probabilities in two worlds, the likelier world first.

        pair: numbers of the two worlds.
        event: the event in words.
        chances: its probabilities in the two worlds.
        note: remark on the probabilities.
        """
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
        """Draws ``size`` outputs of one world, (size, *shape).

        InputError for another number of outputs, for ragged outputs, objects or NaN.
        """
        return checked_outputs(self.draw(world, size, rng), size, self._label(world))

    def draw_blocks(
        self,
        sizes: Mapping[int, int],
        streams: Sequence[np.random.Generator],
        shape: tuple[int, ...] | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Draws outputs of several worlds, in blocks (world, outputs); see ``BLOCK``.

        sizes: number of outputs per world.
        streams: one generator per world; each block is drawn from a generator of its own.
        shape: shape of one output, if known.

        With ``mixed``, runs of the worlds are in random order, so that a drift with time or with
        the number of calls is independent of the world. Otherwise the worlds follow one another.
        InputError unless all outputs of a world have one shape.
        """
        mixed, numbers = self.mixed, [*sizes]
        shapes = dict.fromkeys(numbers, shape)
        groups = [numbers] if mixed else [[number] for number in numbers]
        for together, rng in zip(groups, streams, strict=False):
            rest = np.array([sizes[world] for world in together])
            total, step = int(rest.sum()), _FIRST_BLOCK
            while rest.any():
                taken, entries = np.minimum(rest, step), 1
                if mixed is None:
                    block = self.sample(together[0], int(taken[0]), rng.spawn(1)[0])
                    blocks: Mapping[int, NDArray[Any]] = {together[0]: block}
                else:  # the next runs of a random order of all remaining runs
                    taken = rng.multivariate_hypergeometric(rest, min(step, int(rest.sum())))
                    order = rng.permutation(np.repeat(numbers, taken))
                    blocks = mixed(order, rng.spawn(1)[0])
                for world, block in blocks.items():
                    if (known := shapes[world]) is not None:
                        check_one_shape(self._label(world), known, block.shape[1:])
                    shapes[world] = block.shape[1:]
                    entries = max(entries, block[0].size)
                    yield world, block
                rest = rest - taken
                stage("draw", total - int(rest.sum()), total)
                step = min(BLOCK, max(1, BLOCK_ENTRIES // entries))

    def _label(self, world: int) -> str:
        return f"world {world} ({self.names[world]})"


def _detached(drawn: Any) -> Any:
    """Detached tensors on the CPU, alone or in a list; any other object unchanged."""
    if isinstance(drawn, list) and drawn and hasattr(drawn[0], "detach"):
        return [_detached(each) for each in drawn]
    detach = getattr(drawn, "detach", None)
    return detach().cpu() if callable(detach) else drawn


def check_seed(seed: int) -> int:
    """Returns ``seed`` if it is at least 0; InputError otherwise."""
    if seed < 0:
        raise InputError(f"Expected a seed of at least 0, got seed={seed!r}. Give 0, say.")
    return seed


def check_one_shape(origin: str, *shapes: tuple[int, ...]) -> None:
    """InputError, which names the ``origin``, unless all ``shapes`` are equal."""
    first, *others = dict.fromkeys(shapes)
    if others:
        raise InputError(
            f"Expected outputs of one shape for {origin}, got {first} and {others[0]}. "
            "Return the same shape every time."
        )


def as_array(drawn: Any, origin: str) -> NDArray[Any]:
    """Converts drawn outputs to an array; InputError, which names the ``origin``, if it cannot."""
    try:
        return np.asarray(_detached(drawn))
    except ValueError as error:
        raise InputError(
            f"Expected outputs of one shape for {origin}, got ragged outputs. "
            "Return the same shape every time."
        ) from error
    except Exception as error:  # a foreign class may raise anything on conversion to an array
        raise InputError(
            f"Expected outputs that numpy can read for {origin}, got {type(error).__name__}: "
            f"{message_of(error)}. Return an array."
        ) from error


def checked_outputs(drawn: Any, size: int, origin: str) -> NDArray[Any]:
    """Converts drawn outputs to an array (size, *shape) of numbers, booleans or strings.

    InputError, which names the ``origin``, for another number of outputs, for ragged outputs,
    objects or NaN.
    """
    array = as_array(drawn, origin)
    if array.dtype.kind == "S":  # one letter per byte, whatever the bytes mean
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
            "Return an encoding of the output: its numbers as an array, or its JSON."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"Expected outputs without NaN for {origin}, got NaN. Mend the callable.")
    return array
