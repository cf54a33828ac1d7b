"""The random generator of traced code, which records draws on an execution path, without sampling.

The traced function receives this generator as its argument ``rng``. Calls of the global generators
of NumPy and Python use it too. Distributions that tracing does not support raise NotTraced with
their name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import affine_noise, known, paths
from fedrec_auditor.auditor.tracing.affine_noise import AffineNoise, to_fraction
from fedrec_auditor.auditor.tracing.arrays import TracedArray, to_object_array
from fedrec_auditor.auditor.tracing.paths import ExecutionPath, FiniteDraw, NotTraced, RealDraw
from fedrec_auditor.auditor.tracing.symbols import Symbol, apply_to_values, fix_symbol

# Maximum number of values of one discrete draw.
_MAX_VALUES = 1 << 12
# Maximum number of bits of a probability, as a fraction in lowest terms.
_MAX_BITS = 1 << 15
# Minimum number of values of a seed, and number of values above which a random integer is treated
# as a real number.
_MIN_SEEDS, _MAX_INT = 1 << 31, 1 << 40


class TracedGenerator(np.random.Generator):
    """A ``numpy.random.Generator`` that records draws on an execution path, without sampling.

    A draw returns a symbol (a value that depends on random draws). In a replay, which repeats a run
    with given values of the draws, a draw returns a number.

    ``may_treat_int_as_real``: whether a random integer with more than 2^40 possible values is
        treated as a real number. If false, it may only be used as a seed. The flag is set before
        each draw in traced code: true if the code of a mechanism of this package draws.
    """

    # The claims of these mechanisms allow for the rounding, and their exact samplers draw again if
    # two draws are equal.
    may_treat_int_as_real = True

    def __init__(self, path: ExecutionPath) -> None:
        super().__init__(np.random.PCG64(0))
        self.path = path

    def draw_real(self, family: str, size: Any, name: str = "") -> Any:
        """Draws numbers of shape ``size`` from a standard distribution, or one number if ``size``
        is None.

        ``family``: name of the distribution, such as "normal"; ``RealDraw`` lists all. ``name``:
        text of the drawing call, for reports.
        """
        name = name or f"{family}()"
        return self._fill(size, np.float64, lambda: self._record(RealDraw(name, family)))

    def draw_scaled(self, family: str, loc: Any, scale: Any, size: Any, name: str = "") -> Any:
        """Draws numbers from a standard distribution, multiplied by ``scale`` and shifted by
        ``loc``.

        ``family``: name of the distribution, such as "normal".
        ``size``: shape of the result; None for one number.
        ``name``: text of the drawing call, for reports.
        """
        if size is None and (np.ndim(loc) or np.ndim(scale)):
            size = np.broadcast_shapes(np.shape(loc), np.shape(scale))
        return loc + scale * self.draw_real(family, size, name)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draws uniform numbers from [low, high)."""
        return self.draw_scaled("uniform", low, high - low, size)

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """Draws uniform numbers from [0, 1], the beta distribution with a = b = 1.

        Raises NotTraced for any other parameters.
        """
        if (a, b) != (1, 1):
            raise NotTraced("tracing supports Generator.beta only for parameters equal to 1")
        return self.uniform(size=size)

    def geometric(self, p: Any, size: Any = None) -> Any:
        """Draws the number of trials (1, 2, ...) until one succeeds; ``p``: success probability."""
        share = _to_probability(p)
        if share == 0:
            raise ValueError("p <= 0, p > 1 or p contains NaNs")
        if share == 1:
            return self._fill(size, np.int64, lambda: np.int64(1))
        rate = -math.log1p(-float(share))
        name = f"geometric({float(share):.6g})"
        return self._fill(size, np.int64, lambda: self._record(RealDraw(name, "geometric", rate)))

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:
        """Draws integers from ``low`` to ``high`` - 1, or to ``high`` if ``endpoint``, each equally
        likely.

        If ``high`` is None, ``low`` is used in its place, and the integers start at 0. Raises
        NotTraced if ``low`` or ``high`` is an array.
        """
        low, high = (0, low) if high is None else (low, high)
        if np.ndim(low) or np.ndim(high):
            raise NotTraced("Generator.integers gets arrays as bounds. Use one call per entry")
        first, beyond = int(low), int(high) + endpoint
        many, name = beyond - first, f"integers({first}, {beyond})"
        if many <= 0:
            raise ValueError("low >= high")
        if many > _MAX_INT:
            name = "integers()" if self.may_treat_int_as_real else affine_noise.SEED_DRAW_NAME
            return self.draw_scaled("uniform", first, many, size, name)
        if many > _MAX_VALUES:
            source = partial(RealDraw, name, "integers", 0.0, many)
            return first + self._fill(size, dtype, lambda: self._record(source()))
        values = _list_integers(first, beyond, np.dtype(dtype).type)
        return self._fill(size, dtype, lambda: self._draw_finite(name, values, _equal_masses(many)))

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draws the number of successes in ``n`` trials with success probability ``p``.

        Raises NotTraced for more than 4096 trials, or if the exact probabilities, as fractions,
        have too many digits.
        """
        if np.ndim(n) or np.ndim(p):
            shape = () if size is None else size
            every = np.broadcast(to_object_array(n), to_object_array(p), np.empty(shape))
            drawn = np.empty(every.size, dtype=object)
            for place, one in enumerate(every):
                drawn[place] = self.binomial(*one[:2])
            return self._to_array(drawn, every.shape, np.int64)
        trials, share = int(n), _to_probability(p)
        described = f"{trials:,} trials"
        if trials > _MAX_VALUES:
            raise NotTraced(f"a binomial draw has {described}, above the limit {_MAX_VALUES:,}")
        if trials * share.denominator.bit_length() > _MAX_BITS:
            raise NotTraced(f"a binomial draw of {described} has too many outcomes to enumerate")
        hits = range(trials + 1)
        masses = tuple(math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in hits)
        values = tuple(map(np.int64, hits))
        name = f"binomial({trials}, {float(share):.6g})"
        return self._fill(size, np.int64, lambda: self._draw_finite(name, values, masses))

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """Draws elements of ``a``, with or without replacement, as
        ``numpy.random.Generator.choice`` does.
        """
        array = _to_rows(a, "choice", axis)
        many = len(array)
        if many == 0:
            raise ValueError("a cannot be empty unless no samples are taken")
        shares: Sequence[Any] = _equal_masses(many)
        if p is not None:
            given = [_to_probability(share) for share in p]
            total = sum(given)
            if len(given) != many or abs(total - 1) > 1e-7:
                raise ValueError("probabilities do not sum to 1")
            shares = [share / total for share in given]
        name = f"choice of {many}"
        if not replace and size is not None:
            picks = self.draw_distinct_indices(shares, math.prod(_to_shape(size)))
            return array[np.array(picks, dtype=np.int64).reshape(_to_shape(size))]
        if array.ndim > 1 or array.dtype.kind not in "biuf":
            picks = [self.draw_index(name, shares) for _ in range(math.prod(_to_shape(size)))]
            return array[np.array(picks, dtype=np.int64).reshape(_to_shape(size))[()]]
        values = tuple(array)
        if any(isinstance(value, Symbol) for value in values):
            return self._fill(size, array.dtype, lambda: values[self.draw_index(name, shares)])
        return self._fill(size, array.dtype, lambda: self._draw_finite(name, values, tuple(shares)))

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Returns the rows of the array ``x``, or the integers below ``x``, in random order."""
        array = _to_rows(x, "permutation", axis)
        return array[np.array(self._draw_order(len(array)), dtype=np.int64)]

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """Returns the entries of a one-dimensional array in random order.

        Raises NotTraced for more dimensions, and for ``out``.
        """
        if np.ndim(x) > 1 or out is not None:
            raise NotTraced("tracing supports Generator.permuted only for one row without out=")
        return self.permutation(x)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Brings the elements of ``x`` into random order, in place."""
        if axis:
            raise NotTraced("tracing supports Generator.shuffle only along the first axis")
        order = self._draw_order(len(x))
        x[:] = x[np.array(order)] if isinstance(x, np.ndarray) else [x[k] for k in order]

    @property
    def bit_generator(self) -> Any:
        """Raises NotTraced, because raw random bits are not supported."""
        raise NotTraced("tracing does not support Generator.bit_generator")

    def check_seeding(self, a: Any = None, **_: Any) -> None:
        """Replaces a call in traced code that seeds a global generator with ``a``.

        A seed must be a fresh draw with at least 2^31 possible values; NotTraced is raised for
        other seeds. Nothing happens without a seed, and in replays (runs with given values of the
        draws).
        """
        if a is None or self.path.values is not None:
            return
        values = a.list_values() if isinstance(a, Symbol) else []
        noise = values[0][1] if len(values) == 1 else None
        if isinstance(noise, AffineNoise) and noise.function is math.floor:
            noise = noise.inner_noise
        source = noise.source if isinstance(noise, AffineNoise) else None
        if isinstance(noise, AffineNoise) and source is not None:
            many = source.n_values or (source.family == "uniform") * noise.coefficient
            if many >= _MIN_SEEDS and source.domain == self.path.limits.get(source, source.domain):
                # The later draws of the global generator are then independent draws. Any other use
                # of the seed raises NotTraced.
                self.path.used_up.add(source)
                self.path.changes += 1
                return
        raise NotTraced("the code seeds a generator with a value that is not a fresh random draw")

    def spawn(self, n_children: int) -> Any:
        """Returns this generator ``n_children`` times, in a list: all its draws are independent."""
        return [self for _ in range(n_children)]

    def draw_uniformly(self, name: str, values: tuple[Any, ...]) -> Any:
        """Draws one of the equally likely ``values``.

        ``name``: text of the drawing call, for reports.
        """
        return self._draw_finite(name, values, _equal_masses(len(values)))

    def draw_index(self, name: str, shares: Sequence[Fraction]) -> int:
        """Draws an index with the given probabilities, and fixes its value on the execution path.

        ``name``: text of the drawing call, for reports.
        ``shares``: probability of each index.
        """
        return int(fix_symbol(self._draw_finite(name, tuple(range(len(shares))), tuple(shares))))

    def draw_distinct_indices(self, shares: Sequence[Fraction], count: int) -> list[int]:
        """Draws ``count`` distinct indices one after another, without replacement.

        ``shares``: probability of each index in the first draw.

        Raises ValueError if fewer than ``count`` indices have a positive probability.
        """
        left, picks = list(range(len(shares))), []
        if count > sum(share > 0 for share in shares):
            raise ValueError("Cannot take a larger sample than population when replace is False")
        for _ in range(count):
            total = sum((shares[k] for k in left), Fraction(0))
            weights = [shares[k] / total for k in left]
            picks.append(left.pop(self.draw_index(f"one of {len(left)}", weights)))
        return picks

    def _draw_order(self, many: int) -> list[int]:
        return self.draw_distinct_indices(_equal_masses(many), many) if many else []

    def _record(self, source: RealDraw) -> Any:
        value = self.path.replay_or_record_draw(source)
        if value is not None:
            return np.int64(value) if source.is_integer else value
        return Symbol(self.path, [({source: source.domain}, AffineNoise(source))])

    def _draw_finite(self, name: str, values: tuple[Any, ...], masses: tuple[Any, ...]) -> Any:
        """Records a draw from ``values`` with probabilities ``masses``, and returns its value.

        The returned value is a symbol, which depends on the draw. It is concrete in two cases:

        - in a replay (a run with given values of the draws);
        - on a path that fixes each discrete draw when it is made.
        """
        if len(values) > _MAX_VALUES:
            raise NotTraced(f"the draw {name} has more than {_MAX_VALUES:,} possible values")
        source = FiniteDraw(name, values, masses)
        value = self.path.replay_or_record_draw(source)
        if value is not None:
            return value
        possible = source.support_mask
        drawn = ((k, value) for k, value in enumerate(values) if possible >> k & 1)
        symbol = Symbol(self.path, [({source: 1 << k}, value) for k, value in drawn])
        return symbol.to_concrete() if self.path.eager else symbol

    def _fill(self, size: Any, dtype: Any, draw: Callable[[], Any]) -> Any:
        """Returns one draw if ``size`` is None, otherwise an array of draws of that shape."""
        if size is None:
            return draw()
        many, limit = math.prod(_to_shape(size)), paths.MAX_DRAWS
        if many > limit:
            raise NotTraced(f"the code draws an array of {many:,} numbers, more than {limit:,}")
        draws = np.empty(many, dtype=object)
        for place in range(many):
            draws[place] = draw()
        return self._to_array(draws, _to_shape(size), dtype)

    def _to_array(self, draws: Any, shape: Any, dtype: Any) -> Any:
        """Returns draws as a traced array of ``shape`` and ``dtype``.

        The array is concrete in two cases:

        - in a replay (a run with given values of the draws);
        - if all draws are discrete, and the path fixes each discrete draw when it is made.
        """
        open_draws = any(isinstance(entry, Symbol) for entry in draws)
        if self.path.values is not None or (self.path.eager and not open_draws):
            return np.array(draws.tolist(), dtype=dtype).reshape(shape)
        return TracedArray.wrap(draws.reshape(shape), dtype)


def _make_noise_method(family: str, name: str, *parameters: str) -> Callable[..., Any]:
    """Returns a generator method that draws numbers from the distribution ``family``.

    ``name``: name of the method.
    ``parameters``: names of its positional arguments: "loc", "scale".
    """

    def draw(self: TracedGenerator, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip((*parameters, "size", "dtype", "out"), args, strict=False)) | kwargs
        if given.get("out") is not None:
            raise NotTraced(f"Generator.{name} has out=. Use the array that it returns instead")
        if not parameters:
            return self.draw_real(family, given.get("size"), "random()" if name == "random" else "")
        loc, scale = given.get("loc", 0.0), given.get("scale", 1.0)
        return self.draw_scaled(family, loc, scale, given.get("size"))

    return draw


def _make_refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotTraced(f"tracing does not support {name}")

    return refuse


_NOISES: dict[str, tuple[str, ...]] = {
    "random": ("uniform",),
    "laplace": ("laplace", "loc", "scale"),
    "normal": ("normal", "loc", "scale"),
    "standard_normal": ("normal",),
    "exponential": ("exponential", "scale"),
    "standard_exponential": ("exponential",),
}
for _name, (_family, *_parameters) in _NOISES.items():
    setattr(TracedGenerator, _name, _make_noise_method(_family, _name, *_parameters))
for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in vars(TracedGenerator):
        setattr(TracedGenerator, _name, _make_refusal(f"Generator.{_name}"))


@cache
def _list_integers(first: int, beyond: int, kind: Any) -> tuple[Any, ...]:
    return tuple(kind(k) for k in range(first, beyond))


@cache
def _equal_masses(count: int) -> tuple[Fraction, ...]:
    """Returns ``count`` equal probabilities, as one cached tuple, so that comparisons are fast."""
    return (Fraction(1, count),) * count


def _fix_number(value: Any) -> Any:
    """Converts a number to a fraction.

    A symbol (a value that depends on random draws) is fixed to a number first.
    """
    return to_fraction(value.to_concrete() if isinstance(value, Symbol) else value)


def _to_probability(value: Any) -> Any:
    """Converts a probability to a fraction; raises ValueError if it is not in [0, 1]."""
    share = _fix_number(value)
    if not 0 <= share <= 1:
        raise ValueError("p < 0, p > 1 or p is NaN")
    return share


def _to_shape(size: Any) -> tuple[int, ...]:
    return () if size is None else tuple(map(int, np.ravel(size)))


def _to_rows(value: Any, name: str, axis: int) -> Any:
    """Returns the array from whose rows the method ``name`` draws; an integer stands for a range.

    Raises NotTraced for an ``axis`` other than 0, and for more than 4096 rows.
    """
    if axis:
        raise NotTraced(f"tracing supports Generator.{name} only along the first axis")
    value = value.to_concrete() if isinstance(value, Symbol) else value
    if np.ndim(value) == 0:
        value = range(int(value))
    if len(value) > _MAX_VALUES:
        raise NotTraced(f"{name} draws from {len(value):,} elements, more than {_MAX_VALUES:,}")
    return value if isinstance(value, TracedArray) else np.asarray(value)


def _replace_numpy_random(rng: Any) -> dict[str, Callable[..., Any]]:
    """Returns replacements for NumPy's global random functions, by name, which use ``rng``."""
    same = "random uniform beta normal standard_normal laplace exponential geometric binomial "
    same += "choice permutation shuffle standard_exponential"
    return {
        **{name: getattr(rng, name) for name in same.split()},
        **dict.fromkeys(("random_sample", "ranf", "sample"), rng.random),
        "rand": lambda *shape: rng.random(shape or None),
        "randn": lambda *shape: rng.standard_normal(shape or None),
        "randint": lambda low, high=None, size=None, dtype=int: rng.integers(
            low, high, size, dtype
        ),
        "seed": rng.check_seeding,
        "default_rng": lambda seed=None: (
            rng if seed is None or seed is rng else np.random.default_rng(seed)
        ),
    }


def _replace_python_random(rng: Any) -> dict[str, Callable[..., Any]]:
    """Returns replacements for the functions of Python's ``random``, by name, which use ``rng``.

    Drawn integers are Python integers.
    """

    def randrange(start: int, stop: int | None = None, step: int = 1) -> Any:
        ends = (0, start) if stop is None else (start, stop)
        first, beyond = (int(end) if end // 1 == end else end for end in ends)
        whole = range(first, beyond, step)
        many = len(whole)
        if many > _MAX_VALUES:
            return whole[0] + step * apply_to_values(int, rng.integers(many))
        return rng.draw_uniformly(f"randrange of {many}", tuple(whole))

    def choices(
        population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1
    ) -> Any:
        many = len(population)
        if cum_weights is not None:
            weights = [b - a for a, b in itertools.pairwise([0, *cum_weights])]
        shares = [Fraction(1)] * many if weights is None else [_fix_number(w) for w in weights]
        total = sum(shares)
        shares = [share / total for share in shares]
        return [population[rng.draw_index(f"choices of {many}", shares)] for _ in range(k)]

    def sample(population: Any, k: int, *, counts: Any = None) -> Any:
        if counts is not None:
            raise NotTraced("the code calls random.sample with counts=. Repeat the elements")
        shares = _equal_masses(max(len(population), 1))
        return [population[place] for place in rng.draw_distinct_indices(shares, k)]

    return {
        **{name: getattr(rng, name) for name in ("random", "uniform", "shuffle")},
        **dict.fromkeys(("gauss", "normalvariate"), rng.normal),
        "expovariate": lambda lambd=1.0: rng.exponential(1.0 / lambd),
        "randrange": randrange,
        "randint": lambda a, b: randrange(a, b + 1),
        "getrandbits": lambda k: randrange(1 << k) if k < 13 else _make_refusal("getrandbits")(),
        "choice": lambda seq: seq[int(randrange(len(seq)))],
        "choices": choices,
        "sample": sample,
        "seed": rng.check_seeding,
    }


def make_draw_by_function_id(rng: TracedGenerator) -> dict[int, Any]:
    """Returns replacements of the global random functions of NumPy and Python, by function id.

    A replacement draws from ``rng``. The replacement of an unsupported function raises NotTraced.
    """
    known_draws = [
        ("numpy.random", known.NUMPY_RANDOM, _replace_numpy_random(rng)),
        ("random", known.RANDOM_FUNCTION_BY_NAME, _replace_python_random(rng)),
    ]
    return {
        id(function): modelled.get(name) or _make_refusal(f"{module}.{name}")
        for module, functions, modelled in known_draws
        for name, function in functions.items()
    }
