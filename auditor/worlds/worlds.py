"""Neighbouring inputs of a system, called worlds, and functions that draw and check its outputs.

Every lower bound on epsilon that is measured by sampling starts from a ``Worlds`` object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Scope, Witness
from fedrec_auditor.auditor.machine.progress import report_step
from fedrec_auditor.auditor.worlds.fields import OutputEncoder
from fedrec_auditor.targets.wrapped.client import get_error_text

# Maximum number of outputs in one block of draws, and maximum number of array entries in a block.
# Both limit the memory. The first block is small, because the size of an output is not yet known.
BLOCK_SIZE, MAX_BLOCK_ENTRIES = 1 << 16, 1 << 22
_FIRST_BLOCK = 64


class OutputShapeError(InputError):
    """Error for outputs whose shape depends on the input (world), where one shape is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """Two or more neighbouring inputs of a system, called worlds, and functions that draw its
    outputs.

    Parameters
    ----------
    names : description of each world. An estimator of epsilon compares two of the worlds.
    scope : scope of a bound that is measured on these worlds.
    draw : ``draw(world, size, rng)`` runs the system ``size`` times, independently, on the world
        with index ``world``. It returns one output per run, (size, *shape): numbers, booleans or
        strings.
    statistic_name : name of the number that each output consists of, such as "score"; empty if an
        output is everything that the system returns.
    encoder : the encoder that turned structured outputs into arrays; None if outputs are arrays.
    stored_outputs : existing outputs of each world, one array per world. ``draw`` then returns each
        stored output once, in random order. None if ``draw`` makes new outputs.
    run_canaries : ``run_canaries(rng)`` runs one training. A fair coin decides for each of m
        canaries whether the training includes the canary. The result is a score per canary, (m,
        *shape), and whether each canary was included, (m,). The two worlds are then "canary
        included" and "canary excluded", and ``draw`` is not available. None if there is no such
        training.
    draw_in_order : ``draw_in_order(worlds, rng)`` makes one run for each world index in ``worlds``
        (n,), in this order. It returns the outputs by world index, in the order of the runs. None
        if the order of runs does not matter.

    Examples
    --------
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> coins = Worlds(
    ...     names=("a fair coin", "a biased coin"),
    ...     scope=make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT),
    ...     draw=lambda world, size, rng: rng.random(size) < (0.5, 0.9)[world],
    ... )
    >>> coins.sample(1, 3, np.random.default_rng(0))
    array([ True,  True,  True])
    """

    names: tuple[str, ...]
    scope: Scope
    draw: Callable[[int, int, np.random.Generator], Any]
    statistic_name: str = ""
    encoder: OutputEncoder | None = None
    stored_outputs: tuple[NDArray[Any], ...] | None = None
    run_canaries: Callable[[np.random.Generator], tuple[NDArray[Any], NDArray[np.bool_]]] | None = (
        None
    )
    # The order does not matter for simulations that depend on their seed alone, and for stored
    # outputs.
    draw_in_order: (
        Callable[[NDArray[np.intp], np.random.Generator], Mapping[int, NDArray[Any]]] | None
    ) = None

    def count_outputs(self, samples: int) -> tuple[int, ...]:
        """Returns the number of outputs to draw from each input (world).

        If outputs are stored, all of them are drawn; otherwise ``samples`` per world.
        """
        if self.stored_outputs is None:
            return (samples,) * len(self.names)
        return tuple(map(len, self.stored_outputs))

    def name_event(self, event: str) -> str:
        """Returns the text ``event`` with ``statistic_name`` in place of the word "output".

        The text is unchanged if ``statistic_name`` is empty.
        """
        return event.replace("output", self.statistic_name) if self.statistic_name else event

    def make_witness(
        self, pair: tuple[int, int], event: str, probs: tuple[float, float], note: str
    ) -> Witness:
        """Builds the record of a distinguishing event and its probabilities under two inputs
        (worlds).

        pair: indices of the two worlds, the world in which the event is more likely first.
        event: description of the event.
        probs: probabilities of the event in the two worlds, in the order of ``pair``.
        note: remark on the probabilities.
        """
        (one, other), (p, q) = pair, probs
        return Witness(
            input_a=self.names[one],
            input_b=self.names[other],
            output=event,
            probability_a=float(p),
            probability_b=float(q),
            note=note,
        )

    def sample(self, world: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draws ``size`` outputs of the world (input) with index ``world``, (size, *shape).

        Raises InputError if the number of outputs is not ``size``, and for ragged outputs, objects
        and NaN.
        """
        return check_outputs(self.draw(world, size, rng), size, self._name_world(world))

    def draw_blocks(
        self,
        sizes: Mapping[int, int],
        streams: Sequence[np.random.Generator],
        shape: tuple[int, ...] | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Draws outputs of several worlds (inputs), and yields them as pairs (index of the world,
        block).

        sizes: number of outputs to draw, by index of the world.
        streams: one random generator per world; with ``draw_in_order``, only the first is used.
        shape: shape of one output; None if it is not yet known.

        By default, the worlds are drawn one after another. With ``draw_in_order``, their runs are
        mixed in random order. Raises InputError if the outputs of a world differ in shape.
        """
        # In random order, a drift over time or over calls is independent of the world.
        mixed, numbers = self.draw_in_order, [*sizes]
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
                        check_one_shape(self._name_world(world), known, block.shape[1:])
                    shapes[world] = block.shape[1:]
                    entries = max(entries, block[0].size)
                    yield world, block
                rest = rest - taken
                report_step("draw", total - int(rest.sum()), total)
                step = min(BLOCK_SIZE, max(1, MAX_BLOCK_ENTRIES // entries))

    def _name_world(self, world: int) -> str:
        return f"world {world} ({self.names[world]})"


def _detach(drawn: Any) -> Any:
    """Returns torch tensors, single or in a list, detached on the CPU; other objects unchanged."""
    if isinstance(drawn, list) and drawn and hasattr(drawn[0], "detach"):
        return [_detach(each) for each in drawn]
    detach = getattr(drawn, "detach", None)
    return detach().cpu() if callable(detach) else drawn


def check_seed(seed: int) -> int:
    """Returns ``seed`` if it is at least 0, and raises InputError otherwise."""
    if seed < 0:
        raise InputError(f"Expected a seed of at least 0, got seed={seed!r}. Give 0, for example.")
    return seed


def check_one_shape(origin: str, *shapes: tuple[int, ...]) -> None:
    """Raises InputError unless all ``shapes`` are equal.

    ``origin``: name of the outputs' source, for the error message.
    """
    first, *others = dict.fromkeys(shapes)
    if others:
        raise InputError(
            f"Expected outputs of one shape for {origin}, got {first} and {others[0]}. "
            "Make all outputs the same shape."
        )


def as_array(drawn: Any, origin: str) -> NDArray[Any]:
    """Converts drawn outputs to a NumPy array.

    ``origin``: name of the outputs' source, for error messages. Raises InputError if the outputs
    are ragged or NumPy cannot convert them.
    """
    try:
        return np.asarray(_detach(drawn))
    except ValueError as error:
        raise InputError(
            f"Expected outputs of one shape for {origin}, got ragged outputs. "
            "Make all outputs arrays of the same shape, or lists of the same length."
        ) from error
    except Exception as error:  # a foreign class may raise anything on conversion to an array
        raise InputError(
            f"Expected outputs that numpy can convert to an array for {origin}, got the error "
            f"{type(error).__name__}: {get_error_text(error)}. Use numpy arrays."
        ) from error


def check_outputs(drawn: Any, size: int, origin: str) -> NDArray[Any]:
    """Converts drawn outputs to an array (size, *shape) of numbers, booleans or strings.

    ``origin``: name of the outputs' source, for error messages. Raises InputError if there are not
    ``size`` outputs, and for ragged outputs, objects and NaN.
    """
    array = as_array(drawn, origin)
    if array.dtype.kind == "S":  # one letter per byte, whatever the bytes mean
        array = np.char.decode(array, "latin-1")
    if array.ndim == 0 or len(array) != size:
        came = f"a {type(drawn).__name__}" if array.dtype == object else f"shape {array.shape}"
        raise InputError(
            f"Expected {size} outputs for {origin}, got {came}. "
            f"Return an array whose first axis has length {size}."
        )
    if array.dtype.kind not in "biufUS":
        objects = array.dtype == object
        types = [type(each).__name__ for each in array.ravel()[:BLOCK_SIZE]] if objects else []
        kind = " and ".join(dict.fromkeys(types)) or array.dtype.name
        raise InputError(
            f"Expected numbers or strings as outputs for {origin}, got {kind}. "
            "Encode each output as an array of numbers or as a JSON string."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"Expected outputs without NaN for {origin}, got NaN. Give numbers only.")
    return array
