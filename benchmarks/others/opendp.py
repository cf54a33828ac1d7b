"""OpenDP's local mechanisms, each with the epsilon of its privacy map for the given inputs."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.others.case import Call, Case

CONVERSION = "claimed by conversion from zCDP, which is above the exact curve"


def load() -> ModuleType:
    """Imports OpenDP's prelude, and enables its contributed mechanisms."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    return dp


def list_cases() -> tuple[Case, ...]:
    """All mechanisms that randomize a single record, except queryables and thresholds."""
    dp = load()

    def make_atoms(kind: Any) -> Any:
        return dp.atom_domain(T=kind) if kind is int else dp.atom_domain(T=kind, nan=False)

    def wrap(measurement: Any, decode: Callable[[Any], Any] = lambda x: x) -> Call:
        return lambda x, rng: decode(measurement(x))

    def wrap_vector(measurement: Any) -> Call:
        return lambda x, rng, size: np.array(measurement([x] * size))

    def build(name: str, call: Call, epsilon: float, **rest: Any) -> Case:
        return Case(library="opendp", name=name, call=call, epsilon=epsilon, **rest)

    def make_additive(name: str, kind: Any, scale: float, **bounds: Any) -> Case:
        domain, metric = dp.vector_domain(make_atoms(kind)), dp.l1_distance(T=kind)
        measurement = getattr(dp.m, name)(domain, metric, scale=scale, **bounds)
        extra = "".join(f", {key}={value}" for key, value in bounds.items())
        typed = kind if isinstance(kind, str) else kind.__name__
        return build(
            name,
            wrap_vector(measurement),
            measurement.map(1.0 if kind is not int else 1),
            inputs=(0, 1) if kind is int else (0.0, 1.0),
            setting=f"{typed}, scale={scale:g}{extra}",
        )

    def make_gaussian(kind: Any, scale: float) -> Case:
        unit = 1 if kind is int else 1.0
        space = make_atoms(kind), dp.absolute_distance(T=kind)
        bounded = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        epsilon, delta = dp.c.make_fix_delta(bounded, 1e-3).map(unit)
        many = dp.m.make_gaussian(
            dp.vector_domain(make_atoms(kind)), dp.l2_distance(T=kind), scale=scale
        )
        return build(
            "make_gaussian",
            wrap_vector(many),
            epsilon,
            delta=delta,
            inputs=(0 * unit, unit),
            setting=f"{kind.__name__}, scale={scale:g}, zCDP to approxDP",
            remark=CONVERSION,
        )

    def read_bits(report: bytes) -> list[int]:
        return [report[0] >> k & 1 for k in range(8)]

    real = make_atoms(float), dp.absolute_distance(T=float)
    scores = dp.vector_domain(make_atoms(float)), dp.linf_distance(T=float)
    ranked = ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0))
    rows: list[Case] = []
    for odds in (3.0, 50.0):
        p = odds / (1.0 + odds)
        flip, constant = (dp.m.make_randomized_response_bool(p, c) for c in (False, True))
        rows += [
            build("make_randomized_response_bool", wrap(flip), flip.map(1), inputs=(False, True)),
            build(
                "make_randomized_response_bool",
                wrap(constant),
                constant.map(1),
                inputs=(False, True),
                setting="constant_time",
            ),
        ]
        kinds = dp.m.make_randomized_response(["a", "b", "c"], p)
        rows.append(
            build(
                "make_randomized_response",
                wrap(kinds),
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
                build(
                    "make_randomized_response_bitvec",
                    wrap(vector, read_bits),
                    vector.map(1),
                    inputs=inputs,
                    setting=f"8 bits, max_weight={weight}, f={f:g}",
                )
            )
    for scale in (1.0, 0.25):
        rows += [
            make_additive("make_laplace", float, scale),
            make_additive("make_laplace", "f32", scale),
            make_additive("make_laplace", int, scale),
            make_additive("make_geometric", int, scale),
            make_additive("make_geometric", int, scale, bounds=(0, 4)),
        ]
    coarse = dp.m.make_laplace(*real, scale=1.0, k=-10)
    rows.append(
        build("make_laplace", wrap(coarse), coarse.map(1.0), setting="float, scale=1, k=-10")
    )
    for scale in (4.0, 1.0):
        rows += [make_gaussian(float, scale), make_gaussian(int, scale)]
    for epsilon in (1.0, 4.0):
        canonical = dp.m.make_canonical_noise(*real, d_in=1.0, d_out=(epsilon, 1e-3))
        claimed, delta = canonical.map(1.0)
        rows.append(build("make_canonical_noise", wrap(canonical), claimed, delta=delta))
    for scale in (2.0, 0.5):
        best = dp.m.make_noisy_max(*scores, dp.max_divergence(), scale=scale)
        two = dp.m.make_noisy_top_k(*scores, dp.max_divergence(), k=2, scale=scale)
        for name, measurement in (("make_noisy_max", best), ("make_noisy_top_k", two)):
            rows.append(
                build(
                    name,
                    wrap(lambda x, m=measurement: m(list(x))),
                    measurement.map(1.0),
                    inputs=ranked,
                    setting=f"3 scores, scale={scale:g}",
                    remark="three inputs tried; the claim is for all",
                )
            )
    return tuple(rows)
