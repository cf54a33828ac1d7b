"""Tests that the printed event of a verification has the printed probabilities, in every mode.

The reference probabilities are from scipy's distributions, by quadrature or enumeration.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.statements import Witness
from fedrec_auditor.auditor.exact.output_distribution import Density
from fedrec_auditor.auditor.verification import Verification

Rng = np.random.Generator
NUMBER = r"-?(?:inf|[\d.]+(?:e[-+]?\d+)?)"


def no_atoms(x: int) -> dict[float, float]:
    return {}


@dataclass(frozen=True)
class Case:
    """A randomizer of 0 and 1, with the atoms and the density of its outputs."""

    function: Callable[..., Any]
    density: Callable[[int, float], float]
    atoms: Callable[[int], dict[float, float]] = no_atoms
    ends: Sequence[float] = (0.0, 1.0)

    def log_ratio(self, y: float, a: int, b: int) -> float:
        def weight(x: int) -> float:
            atom = y in self.atoms(0) or y in self.atoms(1)
            return self.atoms(x).get(y, 0.0) if atom else self.density(x, y)

        p, q = weight(a), weight(b)
        return math.inf if p and not q else math.log(p / q) if p else -math.inf

    def integrate(self, x: int, low: float, high: float) -> float:
        """Probability of an interval by the density."""
        ends = [e for e in (*self.ends, *np.linspace(-40.0, 40.0, 17)) if low < e < high]
        edges = sorted({max(low, -40.0), min(high, 40.0), *ends})
        return math.fsum(
            integrate.quad(lambda y: self.density(x, y), start, stop, epsabs=1e-15)[0]
            for start, stop in itertools.pairwise(edges)
        )

    def chance(self, x: int, words: str, a: int, b: int) -> float:
        """Probability of an event given by its text."""
        atoms = self.atoms(x)
        if found := re.fullmatch(rf"in \(({NUMBER}), ({NUMBER})\)", words):
            low, high = map(float, found.groups())
            return self.integrate(x, low, high) + sum(m for y, m in atoms.items() if low < y < high)
        if "impossible" in words:
            return self.likelier_prob(x, 1e3, a, b)
        if found := re.fullmatch(rf".* likelier by a factor above e\^({NUMBER})", words):
            return self.likelier_prob(x, float(found[1]), a, b)
        return atoms[float(words)]

    def likelier_prob(self, x: int, epsilon: float, a: int, b: int) -> float:
        """Probability of the outputs with a ratio of a to b above e^epsilon."""

        def above(y: float) -> float:
            return min(max(self.log_ratio(y, a, b), -1e3), 1e3 + 1.0) - epsilon

        edges = sorted({*self.ends, *np.linspace(-39.9, 39.9, 40).tolist()})
        total = sum(m for y, m in self.atoms(x).items() if above(y) > 0.0)
        for low, high in itertools.pairwise(edges):
            low, high = np.nextafter(low, high), np.nextafter(high, low)
            if above(low) * above(high) < 0.0:
                cut = optimize.brentq(above, low, high, xtol=1e-14)
                low, high = (low, cut) if above(low) > 0.0 else (cut, high)
            elif above(low / 2 + high / 2) <= 0.0:
                continue
            total += self.integrate(x, low, high)
        return total


def make_density(noise: Any) -> Callable[[int, float], float]:
    return lambda x, y: float(noise.pdf(y - x))


def clip(noise: Any, low: float, high: float) -> tuple[Any, Any]:
    def atoms(x: int) -> dict[float, float]:
        ends = {low: float(noise.cdf(low - x)), high: float(noise.sf(high - x))}
        return {y: mass for y, mass in ends.items() if mass}

    return lambda x, y: float(noise.pdf(y - x)) * (low < y < high), atoms


def rounded(x: int) -> dict[float, float]:
    whole = np.arange(-30.0, 31.0)
    cdf = stats.laplace(x).cdf
    return dict(zip(whole.tolist(), (cdf(whole + 0.5) - cdf(whole - 0.5)).tolist(), strict=True))


def halves(x: int, rng: Rng) -> float:
    return 0.0 if rng.random() < 0.5 else x + rng.laplace()


def coin(x: int, rng: Rng) -> int:
    return x if rng.random() < 0.75 else 1 - x


LAPLACES = stats.laplace(0, 1), stats.laplace(1, 0.5)
NORMALS = stats.norm(0, 1), stats.norm(0, 2)

CASES = {
    "laplace": Case(lambda x, rng: x + rng.laplace(), make_density(stats.laplace)),
    "normal": Case(lambda x, rng: x + rng.normal(), make_density(stats.norm)),
    "two scales": Case(
        lambda x, rng: x + rng.laplace(0, 1 - 0.5 * x), lambda x, y: float(LAPLACES[x].pdf(y))
    ),
    "two deviations": Case(
        lambda x, rng: rng.normal(0, 1 + x), lambda x, y: float(NORMALS[x].pdf(y))
    ),
    "clipped": Case(
        lambda x, rng: float(np.clip(x + rng.laplace(), 0, 1)), *clip(stats.laplace, 0.0, 1.0)
    ),
    "clipped beyond": Case(
        lambda x, rng: float(np.clip(x + rng.laplace(), -1, 2)),
        *clip(stats.laplace, -1.0, 2.0),
        ends=(-1.0, 0.0, 1.0, 2.0),
    ),
    "relu": Case(lambda x, rng: max(x + rng.normal(), 0.0), *clip(stats.norm, 0.0, math.inf)),
    "mixed": Case(halves, lambda x, y: float(stats.laplace.pdf(y - x)) / 2, lambda x: {0.0: 0.5}),
    "shifted": Case(
        lambda x, rng: x / 4 + rng.random(),
        lambda x, y: float(x / 4 < y < x / 4 + 1),
        ends=(0.0, 0.25, 1.0, 1.25),
    ),
    "one-sided": Case(lambda x, rng: x + rng.exponential(), make_density(stats.expon)),
    "rounded": Case(lambda x, rng: round(x + rng.laplace()), lambda x, y: 0.0, rounded),
    "coin": Case(coin, lambda x, y: 0.0, lambda x: {float(x): 0.75, float(1 - x): 0.25}),
}


def compute_probs(case: Case, witness: Witness | None) -> list[float]:
    """Probabilities of a witness's event under its first and its second input."""
    assert witness is not None
    a, b = int(witness.input_a), int(witness.input_b)
    if found := re.fullmatch(r"the (\w+) of \d+ outputs with the largest [^:]*", witness.output):
        outputs = {*case.atoms(0), *case.atoms(1)}
        ordered = sorted(outputs, key=lambda y: -case.log_ratio(y, a, b))[
            : int(found[1].replace("one", "1"))
        ]
        return [sum(case.atoms(x).get(y, 0.0) for y in ordered) for x in (a, b)]
    if " outputs with the largest " in witness.output:
        _, named, outputs = witness.output.partition("probability ratio: ")
        if named:
            ordered = [*map(float, outputs.split(" or "))]
            return [sum(case.atoms(x).get(y, 0.0) for y in ordered) for x in (a, b)]
    return [case.chance(x, witness.output, a, b) for x in (a, b)]


def get_stated(witness: Witness | None) -> list[float]:
    assert witness is not None
    return [witness.probability_a, witness.probability_b]


def verify(function: Any, delta: float, **settings: Any) -> Verification:
    return verify_ldp(function, epsilon=0.5, delta=delta, samples=4_000, **settings)


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("name", CASES)
def test_events_of_proofs(name: str, delta: float) -> None:
    found = verify(CASES[name].function, delta)
    assert found.method.startswith("proved"), found.checks[0].reason
    expected = compute_probs(CASES[name], found.witness)
    assert get_stated(found.witness) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    p, q = expected
    assert p > delta
    if q > 0.0 and math.isfinite(found.epsilon_lower):
        assert math.log((p - delta) / q) == pytest.approx(found.epsilon_lower, rel=1e-5)


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("noise", [stats.laplace, stats.norm, stats.logistic, stats.expon])
def test_events_of_calculations(noise: Any, delta: float) -> None:
    density = Density(
        sample=lambda x, rng, size: x + noise.rvs(size=size, random_state=rng),
        log_prob=lambda y, x: noise.logpdf(y, x),
    )
    found = verify(density, delta, inputs=[0, 1])
    assert found.exact
    assert found.witness is not None
    words = found.witness.output.removeprefix("a number from ")
    ends = [list(map(float, each.split(" to "))) for each in words.split(" or ")]
    expected = [
        sum(float(np.diff(noise.cdf(each, int(x)))[0]) for each in ends)
        for x in (found.witness.input_a, found.witness.input_b)
    ]
    assert get_stated(found.witness) == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_densities_of_vectors_are_not_called_probabilities() -> None:
    density = Density(
        sample=lambda x, rng, size: x + rng.laplace(size=(size, 2)),
        log_prob=lambda y, x: stats.laplace(x).logpdf(y).sum(axis=-1),
    )
    witness = verify(density, 0.0, inputs=[0, 1]).witness
    assert witness is not None
    assert "densities, which are not probabilities" in witness.note


@pytest.mark.parametrize("name", ["laplace", "normal", "clipped", "relu", "coin", "rounded"])
def test_events_of_samples(name: str) -> None:
    case = CASES[name]
    found = verify_ldp(case.function, epsilon=0.1, samples=20_000, trace=False)
    witness = found.witness
    assert witness is not None
    shares = r"(\d+) of (\d+) draws of input A and (\d+) of (\d+) (?:draws )?of"
    counts = re.match(shares, witness.note)
    assert counts is not None
    right, n, wrong, m = map(int, counts.groups())
    assert get_stated(witness) == [right / n, wrong / m]
    for x, seen, size in zip(
        (witness.input_a, witness.input_b), get_stated(witness), (n, m), strict=True
    ):
        chance = math.fsum(prob_of(case, int(x), part) for part in witness.output.split(" or "))
        assert abs(seen - chance) <= 5.0 * math.sqrt(chance * (1 - chance) / size) + 1e-5


def prob_of(case: Case, x: int, words: str) -> float:
    """Probability of a sampled event of the output."""
    atoms = case.atoms(x)
    if found := re.fullmatch(r"output in \{(.*)\}", words):
        return sum(atoms[float(y)] for y in found[1].split(", "))
    if found := re.fullmatch(rf"output = ({NUMBER})", words):
        return atoms[float(found[1])]
    found = re.fullmatch(rf"(?:({NUMBER}) (<=?) )?output(?: ([<>]=?) ({NUMBER}))?", words)
    assert found is not None, words
    low, high, strict = -math.inf, math.inf, {}
    first, first_sign, last_sign, last = found.groups()
    if first is not None:
        low, strict["low"] = float(first), first_sign == "<"
    if last_sign and last_sign[0] == "<":
        high, strict["high"] = float(last), last_sign == "<"
    elif last_sign:
        low, strict["low"] = float(last), last_sign == ">"
    inside = (
        mass
        for y, mass in atoms.items()
        if (y > low or (y == low and not strict.get("low")))
        and (y < high or (y == high and not strict.get("high")))
    )
    return case.integrate(x, low, high) + sum(inside)


def test_the_event_of_an_unbounded_ratio_is_likely_enough() -> None:
    def report(x: int, rng: Rng) -> float:
        y = x + rng.normal(0, 3)
        return float(round(y)) if rng.random() < 0.5 else y

    witness = verify(report, 0.0).witness
    assert witness is not None
    low, high = map(float, witness.output.removeprefix("in (").removesuffix(")").split(", "))
    expected = [
        np.diff(stats.norm(int(x), 3).cdf([low, high]))[0] / 2
        for x in (witness.input_a, witness.input_b)
    ]
    assert get_stated(witness) == pytest.approx(expected, rel=1e-9)
    assert witness.probability_a >= 1e-6
    assert "grows without bound" in witness.note


def test_events_of_noise_vectors() -> None:
    result = verify(lambda x, rng: x * np.ones(2) + rng.normal(0, 3, 2), 1e-5)
    witness = result.witness
    assert witness is not None
    threshold = float(witness.output.rpartition("^")[2])
    # ln p/q of the second input against the first is (sum - 1) / 9.
    where = 9.0 * threshold
    tails = {"0": stats.norm(0, math.sqrt(18)).sf, "1": stats.norm(2, math.sqrt(18)).sf}
    if witness.input_a == "0":
        tails = {"1": stats.norm(0, math.sqrt(18)).sf, "0": stats.norm(2, math.sqrt(18)).sf}
    p, q = (float(tails[name](1 + where)) for name in (witness.input_a, witness.input_b))
    assert get_stated(witness) == pytest.approx([p, q], rel=1e-9)
    assert math.log((p - 1e-5) / q) == pytest.approx(result.epsilon_lower, rel=1e-5)


def test_events_of_bits_and_noise() -> None:
    def report(x: int, rng: Rng) -> Any:
        return [*np.where(rng.random(2) < 0.75, x, 1 - x), x + rng.normal(0, 2)]

    witness = verify(report, 0.01).witness
    assert witness is not None
    threshold = float(witness.output.rpartition("^")[2])
    expected = [0.0, 0.0]
    for kept in itertools.product([True, False], repeat=2):
        loss = sum(math.log(3) if each else -math.log(3) for each in kept)
        # The loss of a normal number shifted by half a deviation is normal, with that deviation.
        for k, sign in enumerate((1.0, -1.0)):
            mass = math.prod(0.75 if each == (sign > 0) else 0.25 for each in kept)
            expected[k] += mass * float(stats.norm(loss + sign * 0.125, 0.5).sf(threshold))
    assert get_stated(witness) == pytest.approx(expected, rel=1e-9)


def test_events_of_records_name_every_component() -> None:
    found = verify(lambda x, rng: {"set": {coin(x, rng), 7}, "noise": x + rng.laplace()}, 0.0)
    witness = found.witness
    assert witness is not None
    first = int(witness.input_a)
    tail = "in (-inf, 0)" if first == 0 else "in (1, inf)"
    assert witness.output == f"{{'set': set([{first}, 7]), 'noise': {tail}}}"
    assert get_stated(witness) == pytest.approx([0.75 * 0.5, 0.25 * math.exp(-1) / 2])
