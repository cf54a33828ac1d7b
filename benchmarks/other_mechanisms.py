"""Local randomizers of diffprivlib and OpenDP, each held against its own library's claim.

Every mechanism is a black box to ``auditor.verify_ldp``: outputs go in, its law does not. The claim
is what the library says for the inputs shown: the epsilon (and delta) that it was built for in
diffprivlib, the value of the privacy map in OpenDP. Both draw one output at a time, in 2 to 120
microseconds, hence the few samples; the noise of OpenDP is drawn for a vector of equal inputs
where that is the same noise for each. diffprivlib draws from a seeded stand-in for the system's
generator that it takes by default (``Staircase`` from numpy's); OpenDP's generator has no seed, so
its rows move a little from run to run. Each bound holds at 99.95%, so that the hundred of them hold
together at 95%.
"""

from __future__ import annotations

import importlib
import math
import random
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

import auditor
from accountants.verdict import Verdict
from auditor.verification import Status, Verification
from targets.mechanisms.gaussian import Gaussian

Call = Callable[..., Any]

RESULTS = Path(__file__).with_name("OTHER_MECHANISMS.md")
CONFIDENCE = 0.9995
LIBRARIES = {"diffprivlib": "diffprivlib.mechanisms", "opendp": "opendp.prelude"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One mechanism at one claim, as a callable, and the inputs to pair up.

    ``samples`` are drawn for each input. ``setting`` says what the name leaves open. Where only the
    noise that the library calibrates is in question, ``call`` is our mechanism with that noise: its
    law is known, and no input is paired up.
    """

    library: str
    name: str
    call: Call | Gaussian
    epsilon: float
    delta: float = 0.0
    inputs: tuple[Any, ...] | None = (0.0, 1.0)
    samples: int = 40_000
    setting: str = ""

    def verify(self, seed: int = 0) -> Verification:
        """Hold the mechanism against its claim."""
        return auditor.verify_ldp(
            self.call,
            epsilon=self.epsilon,
            delta=self.delta,
            inputs=None if self.inputs is None else list(self.inputs),
            samples=self.samples,
            confidence=CONFIDENCE,
            seed=seed,
        )


def load(library: str) -> ModuleType:
    """The module that holds a library's mechanisms; ImportError where it is not installed."""
    module = LIBRARIES[library]
    if library == "diffprivlib" and library not in sys.modules:
        # Its models (0.6.6) do not import with scikit-learn 1.9; its mechanisms need none of them.
        sys.modules["diffprivlib.models"] = ModuleType("diffprivlib.models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = importlib.import_module(module)
    if library == "opendp":
        loaded.enable_features("contrib")
    return loaded


def cases(library: str) -> tuple[Case, ...]:
    return {"diffprivlib": _diffprivlib, "opendp": _opendp}[library](load(library))


def _diffprivlib(dp: ModuleType) -> tuple[Case, ...]:
    def drawn(make: Callable[[Any], Any], numpys: bool = False) -> Call:
        def call(x: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            mechanism = make(x)
            seed = int(rng.integers(2**32))
            mechanism._rng = np.random.RandomState(seed) if numpys else _Seeded(seed)
            return np.array([mechanism.randomise(x) for _ in range(size)])

        return call

    def case(
        name: str,
        epsilon: float,
        *,
        inputs: tuple[Any, ...] = (0.0, 1.0),
        delta: float = 0.0,
        samples: int = 40_000,
        setting: str = "",
        numpys: bool = False,
        **arguments: Any,
    ) -> Case:
        if delta:
            arguments["delta"] = delta
        if name != "Uniform":
            arguments["epsilon"] = epsilon
        mechanism = getattr(dp, name)(**arguments)
        return Case(
            library="diffprivlib",
            name=name,
            call=drawn(lambda _: mechanism.copy(), numpys),
            epsilon=epsilon,
            delta=delta,
            inputs=inputs,
            samples=samples,
            setting=setting,
        )

    def chosen(name: str, epsilon: float) -> Case:
        """The exponential mechanism as a local one: the nearer a candidate, the more useful."""

        def make(x: int) -> Any:
            utility = [4.0 - abs(x - y) for y in range(5)]
            return _Chooser(getattr(dp, name)(epsilon=epsilon, sensitivity=4.0, utility=utility))

        return Case(
            library="diffprivlib",
            name=name,
            call=drawn(make),
            epsilon=epsilon,
            inputs=(0, 2, 4),
            setting="5 candidates, utility 4 - abs(x - y), sensitivity 4",
        )

    def objective(epsilon: float) -> Case:
        """Vector used locally: one record's logistic loss, its released minimiser the output."""
        vector = dp.Vector(epsilon=epsilon, function_sensitivity=0.25, dimension=1, alpha=1.0)

        def call(label: float, rng: np.random.Generator, size: int) -> NDArray[Any]:
            mechanism = vector.copy()
            mechanism._rng = _Seeded(int(rng.integers(2**32)))
            noise, beyond = np.empty(size), 0.0
            for k in range(size):
                released = mechanism.randomise(lambda w: (0.0, np.zeros(1)))
                noise[k] = released(np.zeros(1))[1][0]
                beyond = released(np.ones(1))[1][0] - noise[k]
            high = (np.abs(noise) + 1.0) / (1.0 + beyond)
            low = -high
            for _ in range(60):
                w = (low + high) / 2.0
                rising = (1.0 + beyond) * w + noise - label * special.expit(-label * w) > 0.0
                low, high = np.where(rising, low, w), np.where(rising, w, high)
            return np.round(low * 2.0**20) / 2.0**20

        return Case(
            library="diffprivlib",
            name="Vector",
            call=call,
            epsilon=epsilon,
            inputs=(-1.0, 1.0),
            samples=20_000,
            setting="1 record, logistic loss, alpha=1, minimiser to 2^-20",
        )

    distances = [["a", "b", 1.0], ["a", "c", 2.0], ["b", "c", 1.0]]
    tree = [["a", "b"], ["c", "d"]]
    bounded: dict[str, Any] = {"sensitivity": 1.0, "lower": 0.0, "upper": 1.0}
    inner: tuple[float, ...] = (0.0, 0.5, 1.0)
    rows = []
    for epsilon in (1.0, 4.0):
        rows += [
            case("Binary", epsilon, value0="0", value1="1", inputs=("0", "1"), samples=100_000),
            case("Geometric", epsilon, inputs=(0, 1)),
            case("GeometricTruncated", epsilon, lower=0, upper=4, sensitivity=4, inputs=(0, 2, 4)),
            case("Laplace", epsilon, sensitivity=1.0),
            case("LaplaceTruncated", epsilon, inputs=inner, **bounded),
            case("LaplaceFolded", epsilon, inputs=inner, **bounded),
            case("LaplaceBoundedDomain", epsilon, inputs=inner, **bounded),
            case("Staircase", epsilon, sensitivity=1.0, numpys=True),
            case("Snapping", epsilon, inputs=inner, **bounded),
            case("ExponentialCategorical", epsilon, utility_list=distances, inputs=("a", "b", "c")),
            case("ExponentialHierarchical", epsilon, hierarchy=tree, inputs=("a", "b", "c")),
            chosen("Exponential", epsilon),
            chosen("PermuteAndFlip", epsilon),
        ]
    for epsilon in (0.5, 1.0):
        rows += [
            case("Laplace", epsilon, delta=0.1, sensitivity=1.0),
            case("Gaussian", epsilon, delta=1e-3, sensitivity=1.0),
        ]
    for epsilon in (1.0, 4.0):
        rows += [
            case("GeometricFolded", epsilon, lower=0, upper=4, sensitivity=4, inputs=(0, 4)),
            case("LaplaceBoundedNoise", epsilon, delta=1e-2, sensitivity=1.0),
            case("GaussianAnalytic", epsilon, delta=1e-3, sensitivity=1.0),
            objective(epsilon),
            case("GaussianDiscrete", epsilon, delta=1e-3, inputs=(0, 1)),
        ]
    rows += [
        case("Uniform", 0.0, delta=0.1, sensitivity=1.0),
        case(
            "ExponentialCategorical",
            2.0 * math.log(10.0),
            utility_list=half_balanced(),
            inputs=("x", "y"),
            samples=400_000,
            setting="6 categories, balanced at epsilon / 2 only",
        ),
    ]
    for epsilon, delta in ((1.0, 1e-3), (20.0, 1e-9)):
        analytic = dp.GaussianAnalytic(epsilon=epsilon, delta=delta, sensitivity=1.0)
        rows.append(
            Case(
                library="diffprivlib",
                name="GaussianAnalytic",
                call=Gaussian(sigma=math.sqrt(analytic.variance(0.0)), low=0.0, high=1.0),
                epsilon=epsilon,
                delta=delta,
                inputs=None,
                setting="its calibrated noise, exactly",
            )
        )
    return tuple(rows)


def half_balanced() -> list[list[Any]]:
    """Distances for which every category has the same normaliser at half epsilon, not at epsilon.

    Epsilon is 2 ln 10 and the largest distance 1, so weights at epsilon / 2 are 10^-distance: off
    the diagonal, every row of them adds up to 2.1, and the rows of their squares do not agree.
    """
    weights = {"xy": 0.1, "ax": 0.5, "bx": 0.5, "cx": 0.5, "dx": 0.5, "ay": 0.9, "by": 0.9}
    weights |= {"cy": 0.1, "dy": 0.1, "ab": 0.1, "cd": 0.9, "ac": 0.3, "ad": 0.3}
    weights |= {"bc": 0.3, "bd": 0.3}
    return [[one, other, -math.log10(weight)] for (one, other), weight in weights.items()]


class _Seeded(secrets.SystemRandom):
    """The system's generator, as diffprivlib asks for, with bits that can be drawn again."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)
        super().__init__()

    def random(self) -> float:
        return self._source.random()

    def getrandbits(self, k: int) -> int:
        return self._source.getrandbits(k)


@dataclass
class _Chooser:
    """An exponential mechanism built for one input, with the interface of the others."""

    mechanism: Any

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.mechanism, name, value) if name == "_rng" else super().__setattr__(name, value)

    def randomise(self, _: Any) -> Any:
        return self.mechanism.randomise()


def _opendp(dp: ModuleType) -> tuple[Case, ...]:
    def atoms(kind: Any) -> Any:
        return dp.atom_domain(T=kind) if kind is int else dp.atom_domain(T=kind, nan=False)

    def singly(measurement: Any, decode: Callable[[Any], Any] = lambda x: x) -> Call:
        return lambda x, rng: decode(measurement(x))

    def together(measurement: Any) -> Call:
        return lambda x, rng, size: np.array(measurement([x] * size))

    def case(name: str, call: Call, epsilon: float, **rest: Any) -> Case:
        return Case(library="opendp", name=name, call=call, epsilon=epsilon, **rest)

    def additive(name: str, kind: Any, scale: float, **bounds: Any) -> Case:
        domain, metric = dp.vector_domain(atoms(kind)), dp.l1_distance(T=kind)
        measurement = getattr(dp.m, name)(domain, metric, scale=scale, **bounds)
        extra = "".join(f", {key}={value}" for key, value in bounds.items())
        typed = kind if isinstance(kind, str) else kind.__name__
        return case(
            name,
            together(measurement),
            measurement.map(1.0 if kind is not int else 1),
            inputs=(0, 1) if kind is int else (0.0, 1.0),
            setting=f"{typed}, scale={scale:g}{extra}",
        )

    def gaussian(kind: Any, scale: float) -> Case:
        one = 1 if kind is int else 1.0
        space = atoms(kind), dp.absolute_distance(T=kind)
        bounded = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        epsilon, delta = dp.c.make_fix_delta(bounded, 1e-3).map(one)
        many = dp.m.make_gaussian(
            dp.vector_domain(atoms(kind)), dp.l2_distance(T=kind), scale=scale
        )
        return case(
            "make_gaussian",
            together(many),
            epsilon,
            delta=delta,
            inputs=(0 * one, one),
            setting=f"{kind.__name__}, scale={scale:g}, zCDP to approxDP",
        )

    def bits(report: bytes) -> list[int]:
        return [report[0] >> k & 1 for k in range(8)]

    real = atoms(float), dp.absolute_distance(T=float)
    scores = dp.vector_domain(atoms(float)), dp.linf_distance(T=float)
    ranked = ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0))
    rows = []
    for odds in (3.0, 50.0):
        p = odds / (1.0 + odds)
        flip, constant = (dp.m.make_randomized_response_bool(p, c) for c in (False, True))
        rows += [
            case("make_randomized_response_bool", singly(flip), flip.map(1), inputs=(False, True)),
            case(
                "make_randomized_response_bool",
                singly(constant),
                constant.map(1),
                inputs=(False, True),
                setting="constant_time",
            ),
        ]
        kinds = dp.m.make_randomized_response(["a", "b", "c"], p)
        rows.append(
            case(
                "make_randomized_response",
                singly(kinds),
                kinds.map(1),
                inputs=("a", "b", "c"),
                setting="3 categories",
            )
        )
    for f in (0.5, 0.9):
        for weight, inputs in ((1, (b"\x01", b"\x02")), (2, (b"\x03", b"\x0c"))):
            vector = dp.m.make_randomized_response_bitvec(
                dp.bitvector_domain(max_weight=weight), dp.discrete_distance(), f=f
            )
            rows.append(
                case(
                    "make_randomized_response_bitvec",
                    singly(vector, bits),
                    vector.map(1),
                    inputs=inputs,
                    setting=f"8 bits, max_weight={weight}, f={f:g}",
                )
            )
    for scale in (1.0, 0.25):
        rows += [
            additive("make_laplace", float, scale),
            additive("make_laplace", "f32", scale),
            additive("make_laplace", int, scale),
            additive("make_geometric", int, scale),
            additive("make_geometric", int, scale, bounds=(0, 4)),
        ]
    coarse = dp.m.make_laplace(*real, scale=1.0, k=-10)
    rows.append(
        case("make_laplace", singly(coarse), coarse.map(1.0), setting="float, scale=1, k=-10")
    )
    for scale in (4.0, 1.0):
        rows += [gaussian(float, scale), gaussian(int, scale)]
    for epsilon in (1.0, 4.0):
        canonical = dp.m.make_canonical_noise(*real, d_in=1.0, d_out=(epsilon, 1e-3))
        claimed, delta = canonical.map(1.0)
        rows.append(case("make_canonical_noise", singly(canonical), claimed, delta=delta))
    for scale in (2.0, 0.5):
        best = dp.m.make_noisy_max(*scores, dp.max_divergence(), scale=scale)
        two = dp.m.make_noisy_top_k(*scores, dp.max_divergence(), k=2, scale=scale)
        for name, measurement in (
            ("make_noisy_max", best),
            ("make_noisy_top_k", two),
        ):
            rows.append(
                case(
                    name,
                    singly(lambda x, m=measurement: m(list(x))),
                    measurement.map(1.0),
                    inputs=ranked,
                    setting=f"3 scores, scale={scale:g}",
                )
            )
    return tuple(rows)


REMARKS: dict[tuple[str, str], str] = {}
"""What a finding is due to, once looked into: shown only where there is one."""


def row(case: Case) -> str:
    """One line of the table: what was claimed, what was found, and what it is due to."""
    start = time.perf_counter()
    found = case.verify()
    seconds = time.perf_counter() - start
    claim = f"({case.epsilon:.4g}, {case.delta:g})" if case.delta else f"{case.epsilon:.4g}"
    failed = [check.name for check in found.checks if check.status is Status.FAILED]
    accused = bool(failed) or found.verdict is Verdict.VIOLATED
    remark = REMARKS.get((case.library, case.name), "NOT LOOKED INTO") if accused else ""
    return " | ".join(
        [
            f"| {case.name}",
            case.setting,
            claim,
            str(found.verdict),
            f"{found.epsilon_lower:.3f}",
            ", ".join(failed) or "none",
            f"{case.samples:,}",
            f"{seconds:.1f} s",
            f"{remark} |",
        ]
    )


def report(libraries: Iterable[str] = LIBRARIES) -> str:
    """A table a library, in Markdown; a line instead for one that is not installed."""
    parts = ["# Other people's mechanisms", (__doc__ or "").strip()]
    for library in libraries:
        try:
            found = cases(library)
        except ImportError as error:
            parts.append(f"## {library}\n\nNot installed ({error}): pip install '.[peers]'.")
            continue
        lines = [
            "| mechanism | setting | claim | verdict | bound | failed checks | samples an input "
            "| time | remark |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for case in found:
            lines.append(row(case))
            print(lines[-1], flush=True)
        parts.append(f"## {library} {metadata.version(library)}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    RESULTS.write_text(report(sys.argv[1:] or LIBRARIES), encoding="utf-8")
