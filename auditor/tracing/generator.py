"""The generator that a traced function draws from: every draw is a source, still open.

In the place of the generator that is handed over, and, for the interpreter, of NumPy's and Python's
global ones. Whatever is not modelled refuses by name.
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import TracedArray, _objects, boxed
from fedrec_auditor.auditor.tracing.lines import SEED, Line, Piece, exact
from fedrec_auditor.auditor.tracing.paths import MOST_SOURCES, NotTraced, Path
from fedrec_auditor.auditor.tracing.sources import Discrete, Real
from fedrec_auditor.auditor.tracing.symbols import Symbol, apply, settled

_MOST_VALUES = 1 << 12
"""Values of one discrete draw, at most."""
_MANY_BITS = 1 << 15
"""Of a probability in lowest terms, at most."""
_SEEDS, _MANY = 1 << 31, 1 << 40
"""How many seeds there are at least; whole numbers beyond so many count as real ones."""


class TracedGenerator(np.random.Generator):
    """A ``numpy.random.Generator`` whose draws are sources of a path.

    ``huge`` follows whole numbers of more than 2^40 values as real ones: those of the auditor's
    own mechanisms, whose claims are of their grids, and its exact draws, which draw on at ties.
    """

    huge = True

    def __init__(self, path: Path) -> None:
        super().__init__(np.random.PCG64(0))
        self.path = path

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform on [0, 1), as real numbers."""
        if out is not None:
            raise NotTraced("random(out=) is not followed")
        return self._real("random()", "uniform", size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform on [low, high)."""
        if size is None and (np.ndim(low) or np.ndim(high)):
            size = np.broadcast_shapes(np.shape(low), np.shape(high))
        return low + (high - low) * self._real("uniform()", "uniform", size)

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """Uniform on [0, 1], the one beta distribution that is followed."""
        if (a, b) != (1, 1):
            raise NotTraced("beta with other parameters than 1 is not modelled")
        return self.uniform(size=size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Laplace noise."""
        return self._noise("laplace", loc, scale, size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal noise."""
        return self._noise("normal", loc, scale, size)

    def standard_normal(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Normal noise of scale 1."""
        return self._noise("normal", 0.0, 1.0, size, out)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential noise."""
        return self._noise("exponential", 0.0, scale, size)

    def standard_exponential(self, size: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Exponential noise of scale 1."""
        return self._noise("exponential", 0.0, 1.0, size, options.get("out"))

    def geometric(self, p: Any, size: Any = None) -> Any:
        """1, 2, ...: the trials until the first success."""
        share = _number(p)
        if not 0 < share <= 1:
            raise ValueError("p < 0, p > 1 or p is NaN")
        if share == 1:
            return self._filled(size, np.int64, lambda: np.int64(1))
        rate = -math.log1p(-float(share))
        name = f"geometric({float(share):.6g})"
        return self._filled(size, np.int64, lambda: self._line(Real(name, "geometric", rate)))

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:
        """Whole numbers, each as likely as any other."""
        low, high = (0, low) if high is None else (low, high)
        if np.ndim(low) or np.ndim(high):
            raise NotTraced("integers with an array of bounds is not followed")
        first, beyond = int(low), int(high) + endpoint
        if beyond <= first:
            raise ValueError("low >= high")
        if beyond - first > _MANY:
            name = "integers()" if self.huge else SEED
            return first + (beyond - first) * self._real(name, "uniform", size)
        if beyond - first > _MOST_VALUES:
            source = partial(Real, f"integers({first}, {beyond})", "integers", 0.0, beyond - first)
            return first + self._filled(size, dtype, lambda: self._line(source()))
        values = _whole_numbers(first, beyond, np.dtype(dtype).type)
        return self._uniformly(f"integers({first}, {beyond})", values, size, dtype)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Successes in n trials."""
        if np.ndim(n) or np.ndim(p):
            every = np.broadcast(_objects(n), _objects(p), np.empty(() if size is None else size))
            drawn = np.empty(every.size, dtype=object)
            for place, one in enumerate(every):
                drawn[place] = self.binomial(*one[:2])
            return self._together(drawn, every.shape, np.int64)
        trials, share = int(n), _number(p)
        if trials > _MOST_VALUES:
            raise NotTraced(f"binomial of {trials:,} trials, more than {_MOST_VALUES:,}")
        if not 0 <= share <= 1:
            raise ValueError("p < 0, p > 1 or p is NaN")
        if trials * share.denominator.bit_length() > _MANY_BITS:
            raise NotTraced(f"binomial of {trials:,} trials has probabilities of too many digits")
        masses = tuple(
            math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(trials + 1)
        )
        values = tuple(map(np.int64, range(trials + 1)))
        name = f"binomial({trials}, {float(share):.6g})"
        return self._filled(size, np.int64, lambda: self._discrete(name, values, masses))

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """Elements of ``a``, with or without replacement."""
        if axis:
            raise NotTraced("choice along another axis is not followed")
        if isinstance(a, Symbol):
            a = a.plain()
        many = int(a) if np.ndim(a) == 0 else len(a)
        array = np.arange(many) if np.ndim(a) == 0 else a
        array = array if isinstance(array, TracedArray) else np.asarray(array)
        if many > _MOST_VALUES:
            raise NotTraced(f"choice of {many:,} elements, more than {_MOST_VALUES:,}")
        if many == 0:
            raise ValueError("a cannot be empty unless no samples are taken")
        shares = [Fraction(1, many)] * many
        if p is not None:
            given = [_number(share) for share in p]
            if len(given) != many or abs(sum(given) - 1) > 1e-7 or min(given) < 0:
                raise ValueError("probabilities do not sum to 1")
            total = sum(given)
            shares = [share / total for share in given]
        name = f"choice of {many}"
        if replace or size is None:
            if array.ndim > 1 or array.dtype.kind not in "biuf":
                places = self._filled(size, object, lambda: self._place(name, shares))
                plain = np.vectorize(lambda place: int(place), otypes=[np.int64])(places)
                found = array[plain]
                return found if np.ndim(places) else (found[()] if array.ndim == 1 else found)
            values = tuple(array)
            symbolic = any(isinstance(value, Symbol) for value in values)
            if symbolic:
                return self._filled(
                    size, array.dtype, lambda: values[int(self._place(name, shares))]
                )
            return self._filled(
                size, array.dtype, lambda: self._discrete(name, values, tuple(shares))
            )
        shape = (int(size),) if np.ndim(size) == 0 else tuple(map(int, size))
        picks = self._without_replacement(shares, math.prod(shape))
        return array[np.array(picks, dtype=np.int64).reshape(shape)]

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """A random order of a range, or of the rows of an array."""
        array = np.arange(int(x)) if np.ndim(x) == 0 else x
        array = array if isinstance(array, TracedArray) else np.asarray(array)
        if axis:
            raise NotTraced("permutation along another axis is not followed")
        many = len(array)
        order = self._without_replacement([Fraction(1, many)] * many, many)
        return array[np.array(order, dtype=np.int64)]

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """The entries of a row in a random order."""
        if np.ndim(x) > 1 or out is not None:
            raise NotTraced("permuted of several rows is not followed")
        return self.permutation(x)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Bring the elements of ``x`` into a random order, in place."""
        if axis:
            raise NotTraced("shuffle along another axis is not followed")
        many = len(x)
        order = self._without_replacement([Fraction(1, many)] * many, many)
        x[:] = x[np.array(order)] if isinstance(x, np.ndarray) else [x[k] for k in order]

    @property
    def bit_generator(self) -> Any:
        """Refused: raw bits are not modelled."""
        raise NotTraced("Generator.bit_generator is not modelled")

    def seeded(self, a: Any = None, **_: Any) -> None:
        """Seed a global generator with an open draw of 2^31 values or more: its draws stay fresh.

        NotTraced for another seed, and where the draw is used for anything else.
        """
        if a is None or self.path.values is not None:
            return
        line = a.pieces()[0][1] if isinstance(a, Symbol) and len(a.pieces()) == 1 else None
        if isinstance(line, Line) and line.function is math.floor:
            line = line.inner
        if not isinstance(line, Line):
            raise NotTraced("a generator is seeded by what is no fresh draw")
        source = line.source
        many = source.count or (source.family == "uniform") * line.coefficient
        if many < _SEEDS or source.whole != self.path.limits.get(source, source.whole):
            raise NotTraced("a generator is seeded by what is no fresh draw")
        self.path.used_up.add(source)
        self.path.changes += 1

    def spawn(self, n_children: int) -> Any:
        """Generators of the same path: their draws are independent."""
        return [self for _ in range(n_children)]

    def _noise(self, family: str, loc: Any, scale: Any, size: Any, out: Any = None) -> Any:
        if out is not None:
            raise NotTraced(f"{family}(out=) is not followed")
        if size is None and (np.ndim(loc) or np.ndim(scale)):
            size = np.broadcast_shapes(np.shape(loc), np.shape(scale))
        return loc + scale * self._real(f"{family}()", family, size)

    def _real(self, name: str, family: str, size: Any) -> Any:
        return self._filled(size, np.float64, lambda: self._line(Real(name, family)))

    def _line(self, source: Real) -> Any:
        value = self.path.add(source)
        if value is not None:
            return np.int64(value) if source.lattice else value
        return Symbol(self.path, [({source: source.whole}, Line(source))])

    def _uniformly(self, name: str, values: tuple[Any, ...], size: Any, dtype: Any) -> Any:
        masses = _equal_masses(len(values))
        return self._filled(size, dtype, lambda: self._discrete(name, values, masses))

    def _discrete(self, name: str, values: tuple[Any, ...], masses: tuple[Any, ...]) -> Any:
        """A symbol of a new source; its value in a replay, or where the path decides at once."""
        if len(values) > _MOST_VALUES:
            raise NotTraced(f"{name}: more than {_MOST_VALUES:,} values")
        source = Discrete(name, values, masses)
        value = self.path.add(source)
        if value is not None:
            return value
        possible = source.possible
        pieces: list[Piece] = [
            ({source: 1 << k}, v) for k, v in enumerate(values) if possible >> k & 1
        ]
        symbol = Symbol(self.path, pieces)
        return symbol.plain() if self.path.eager else symbol

    def _place(self, name: str, shares: Sequence[Fraction]) -> int:
        """A place, on which the path decides."""
        return int(settled(self._discrete(name, tuple(range(len(shares))), tuple(shares))))

    def _without_replacement(self, shares: Sequence[Fraction], count: int) -> list[int]:
        """Different places, drawn one after the other from those that are left."""
        left, picks = list(range(len(shares))), []
        if count > len(left) or count > sum(share > 0 for share in shares):
            raise ValueError("Cannot take a larger sample than population when replace is False")
        for _ in range(count):
            total = sum((shares[k] for k in left), Fraction(0))
            weights = [shares[k] / total for k in left]
            picks.append(left.pop(self._place(f"one of {len(left)}", weights)))
        return picks

    def _filled(self, size: Any, dtype: Any, draw: Callable[[], Any]) -> Any:
        """One draw, or an array of them."""
        if size is None:
            return draw()
        shape = (int(size),) if np.ndim(size) == 0 else tuple(map(int, size))
        if math.prod(shape) > MOST_SOURCES:
            raise NotTraced(
                f"one call draws {math.prod(shape):,} random numbers, more than {MOST_SOURCES:,}"
            )
        objects = np.empty(math.prod(shape), dtype=object)
        for place in range(len(objects)):
            objects[place] = draw()
        return self._together(objects, shape, dtype)

    def _together(self, draws: Any, shape: Any, dtype: Any) -> Any:
        """Draws as an array, a plain one in replays and where none of them is open."""
        open_draws = any(isinstance(entry, Symbol) for entry in draws)
        if self.path.values is not None or (self.path.eager and not open_draws):
            return np.array(draws.tolist(), dtype=dtype).reshape(shape)
        return TracedArray.of(draws.reshape(shape), dtype)


@cache
def _whole_numbers(first: int, beyond: int, kind: Any) -> tuple[Any, ...]:
    return tuple(kind(k) for k in range(first, beyond))


@cache
def _equal_masses(count: int) -> tuple[Fraction, ...]:
    """One and the same object, which is compared at once."""
    return (Fraction(1, count),) * count


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotTraced(f"{name} is not modelled")

    return refuse


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in vars(TracedGenerator):
        setattr(TracedGenerator, _name, _refusing(f"Generator.{_name}"))


def _number(value: Any) -> Any:
    """A probability as a fraction."""
    return exact(value.plain() if isinstance(value, Symbol) else value)


def _legacy(rng: TracedGenerator) -> dict[str, Callable[..., Any]]:
    """NumPy's global functions, by name."""
    known: dict[str, Callable[..., Any]] = {
        "random_sample": rng.random,
        "ranf": rng.random,
        "sample": rng.random,
        "random": rng.random,
        "rand": lambda *shape: rng.random(shape or None),
        "randn": lambda *shape: rng.standard_normal(shape or None),
        "randint": lambda low, high=None, size=None, dtype=int: rng.integers(
            low, high, size, dtype
        ),
        "seed": rng.seeded,
        "default_rng": lambda seed=None: (
            rng if seed is None or seed is rng else np.random.default_rng(seed)
        ),
    }
    same = "uniform beta normal standard_normal laplace exponential geometric binomial choice "
    same += "permutation shuffle standard_exponential"
    known.update({name: getattr(rng, name) for name in same.split()})
    for name in dir(np.random):
        function = getattr(np.random, name)
        if name[0].islower() and callable(function) and name not in known:
            known[name] = _refusing(f"numpy.random.{name}")
    return known


def _standard_library(rng: TracedGenerator) -> dict[str, Callable[..., Any]]:
    """Python's global functions, by name; whole numbers as Python's own."""

    def randrange(start: int, stop: int | None = None, step: int = 1) -> Any:
        ends = (0, start) if stop is None else (start, stop)
        first, beyond = (int(end) if end // 1 == end else end for end in ends)
        whole = range(first, beyond, step)
        many = len(whole)
        if many > _MOST_VALUES:
            return whole[0] + step * apply(int, rng.integers(many))
        return rng._uniformly(f"randrange of {many}", tuple(whole), None, object)

    def choice(seq: Any) -> Any:
        return seq[int(randrange(len(seq)))]

    def choices(
        population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1
    ) -> Any:
        many = len(population)
        if cum_weights is not None:
            weights = [b - a for a, b in itertools.pairwise([0, *cum_weights])]
        shares = [Fraction(1)] * many if weights is None else [_number(w) for w in weights]
        total = sum(shares)
        shares = [share / total for share in shares]
        return [population[rng._place(f"choices of {many}", shares)] for _ in range(k)]

    def sample(population: Any, k: int, *, counts: Any = None) -> Any:
        if counts is not None:
            raise NotTraced("random.sample(counts=) is not modelled")
        many = len(population)
        order = rng._without_replacement([Fraction(1, max(many, 1))] * many, k)
        return [population[place] for place in order]

    known: dict[str, Callable[..., Any]] = {
        "random": rng.random,
        "uniform": rng.uniform,
        "gauss": rng.normal,
        "normalvariate": rng.normal,
        "expovariate": lambda lambd=1.0: rng.exponential(1.0 / lambd),
        "randrange": randrange,
        "randint": lambda a, b: randrange(a, b + 1),
        "getrandbits": lambda k: randrange(1 << k) if k < 13 else _refusing("getrandbits")(),
        "choice": choice,
        "choices": choices,
        "sample": sample,
        "shuffle": rng.shuffle,
        "seed": rng.seeded,
    }
    for name in dir(random):
        if inspect.ismethod(getattr(random, name)) and name not in known:
            known[name] = _refusing(f"random.{name}")
    return known


def _float(value: Any = 0.0, /) -> Any:
    return apply(float, value)


def _int(value: Any = 0, /, *base: Any, **named: Any) -> Any:
    return apply(int, value) if isinstance(value, Symbol) else int(value, *base, **named)


def _constructor(function: Callable[..., Any], eager: bool) -> Callable[..., Any]:
    """A maker of arrays, which may hold symbols later on unless these are decided as drawn."""

    def make(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], (list, tuple)) and function in (np.array, np.asarray):
            dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
            entries = np.array([*_flat(args[0])] or args[0], dtype=object)
            if any(isinstance(entry, Symbol) for entry in entries.ravel()):
                typical = [_typical(entry) for entry in entries.ravel()]
                kind = np.array(typical).dtype if dtype is None else dtype
                return TracedArray.typed(np.array(_boxed(args[0]), dtype=object), kind)
        if args and isinstance(args[0], TracedArray) and function in (np.array, np.asarray):
            dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
            copied = args[0].copy() if function is np.array else args[0]
            return copied if dtype is None else copied.astype(dtype)
        if args and isinstance(args[0], Symbol) and function in (np.array, np.asarray):
            return TracedArray.of(boxed(args[0]), float)
        made = function(*args, **kwargs)
        if isinstance(made, np.ndarray) and made.dtype.kind in "biufU" and not eager:
            return TracedArray.typed(made.astype(object), made.dtype)
        return made

    return make


def _typical(entry: Any) -> Any:
    """A plain number of the type of an entry."""
    value = entry.pieces()[0][1] if isinstance(entry, Symbol) else entry
    return 1.0 if isinstance(value, Line) else value


def _flat(value: Any) -> Iterator[Any]:
    for entry in value:
        if isinstance(entry, (list, tuple)):
            yield from _flat(entry)
        elif isinstance(entry, np.ndarray):
            yield from entry.view(np.ndarray).ravel()
        else:
            yield entry


def _boxed(value: Any) -> Any:
    """Nested lists in the place of nested arrays."""
    if isinstance(value, (list, tuple)):
        return [_boxed(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def draws_of_process(rng: TracedGenerator) -> dict[int, Any]:
    """What stands for draws of NumPy's and Python's global generators, by their identity."""
    pairs = [(known.LEGACY, _legacy(rng)), (known.STANDARD, _standard_library(rng))]
    return {id(old[name]): new for old, news in pairs for name, new in news.items() if name in old}


def makers(eager: bool) -> dict[int, Any]:
    """What stands for functions that make plain numbers or arrays, so that they take symbols."""
    found = {id(f): _constructor(f, eager) for f in known.CONSTRUCTORS.values()}
    found |= {id(f): _lazy(f) for f in known.MATH.values()}
    return found | {id(float): _float, id(int): _int}


def _lazy(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: apply(function, *arguments)
