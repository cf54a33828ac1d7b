"""Found in the wild: exact epsilons have a second route, the rows that are kept are the code's.

Nothing is installed here: `make bench` measures again and writes found_in_the_wild.csv.
"""

from __future__ import annotations

import importlib
import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks import found_in_the_wild as wild
from benchmarks.wild import (
    at_once,
    diffpriv_pure,
    dp_accounting,
    exact,
    load,
    multi_freq_ldpy,
    nprr,
    presto,
    pure_ldp,
    trasgodp,
)
from benchmarks.wild.finding import Finding
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.verification import Density
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "found-in-the-wild.md").read_text(encoding="utf-8")
ROWS = wild.stored()
E1 = math.expm1(1.0)


def known() -> list[Finding]:
    """All whose numbers need no package that is not ours."""
    found: list[Finding] = []
    for name in wild.MODULES:
        try:
            found += importlib.import_module(f"benchmarks.wild.{name}").findings()
        except ImportError:
            assert name == "diffprivlib"
    return found


def the(library: str, name: str, setting: str = "") -> Finding:
    (one,) = (f for f in known() if (f.library, f.name) == (library, name) and setting in f.setting)
    return one


def test_listed_outputs() -> None:
    assert exact.epsilon([{1: 0.75, 0: 0.25}, {1: 0.25, 0: 0.75}]) == pytest.approx(math.log(3.0))
    assert exact.epsilon([{1: 0.1, 0: 0.9}, {1: 0.4, 0: 0.6}]) == pytest.approx(math.log(4.0))
    assert exact.epsilon([{0: 1.0}, {0: 0.999, 1: 0.001}]) == math.inf
    mixed = exact.mixture([(0.5, exact.bit(1.0)), (0.5, exact.uniform([0, 1, 2, 3]))])
    assert mixed == {1: 0.625, 0: 0.125, 2: 0.125, 3: 0.125}
    assert exact.unary(1, 2, 0.5, 0.25)[(0, 1)] == 0.375


@pytest.mark.parametrize(("kind", "k"), [("response", 3), ("zero", 2), ("zero", 3), ("random", 3)])
@pytest.mark.parametrize("d", [2, 3])
def test_fakes(kind: str, k: int, d: int) -> None:
    """The tuple spends what the one attribute is reported at; one attribute, what the page says."""

    def spent(*inputs: tuple[int, ...]) -> float:
        return exact.epsilon(multi_freq_ldpy.fakes_distribution(x, k, kind) for x in inputs)

    zeros, ones = (0,) * d, (1,) * d
    assert spent(zeros, ones) == pytest.approx(math.log(d * E1 + 1.0))
    r = d * E1 + 1.0
    c = (d - 1) / (1 + (k - 1) * r)
    one = (r / (r + k - 1) + c) / (1 / (r + k - 1) + c) if kind == "random" else math.e
    assert spent(zeros, (1, *zeros[1:])) == pytest.approx(math.log(one))


def test_subsets() -> None:
    def spent(*, ordered: bool) -> float:
        return exact.epsilon(
            multi_freq_ldpy.subset_distribution(x, 4, 0.5, ordered=ordered) for x in range(4)
        )

    assert spent(ordered=True) == math.inf
    assert spent(ordered=False) == pytest.approx(0.5)


def test_reports_whose_first_round_is_kept_spend_the_claim() -> None:
    """And r times that of one report if it is drawn anew; bits that nobody has tell nothing."""
    finding = the("multi-freq-ldpy", "L_SUE_Client", "4 reports")
    reports, lasting = multi_freq_ldpy.REPORTS, multi_freq_ldpy.PERMANENT
    permanent, one = (math.exp(e / 2.0) / (math.exp(e / 2.0) + 1.0) for e in (lasting, 1.0))
    again = (one + permanent - 1.0) / (2.0 * permanent - 1.0)  # chained to permanent, it gives one

    def spent(rounds: int, *, kept: bool) -> float:
        sent = {
            bits: exact.product(exact.bit(again if bit else 1.0 - again) for bit in bits)
            for bits in ((0, 0), (0, 1), (1, 0), (1, 1))
        }
        laws = []
        for x in (0, 1):
            first = exact.unary(x, 2, permanent, 1.0 - permanent)
            if kept:
                parts = [(mass, exact.product([sent[y]] * rounds)) for y, mass in first.items()]
                laws.append(exact.mixture(parts))
            else:
                report = exact.mixture((mass, sent[y]) for y, mass in first.items())
                laws.append(exact.product([report] * rounds))
        return exact.epsilon(laws)

    assert spent(1, kept=False) == pytest.approx(1.0)
    assert spent(reports, kept=False) == pytest.approx(finding.exact)
    assert spent(reports, kept=True) < lasting < finding.exact


def test_an_epsilon_that_is_converted_without_rounding_is_spent() -> None:
    def back(f: float) -> float:
        return exact.epsilon(exact.unary(x, 2, 1.0 - f / 2.0, f / 2.0) for x in (0, 1))

    assert back(2.0 / (math.exp(2.5) + 1.0)) == pytest.approx(5.0)
    assert [back(pure_ldp.converted_f(e)) for e in (1.0, 5.0, 9.0)] == pytest.approx(
        [0.979, 5.025, 9.19], abs=1e-3
    )
    assert back(pure_ldp.converted_f(11.97)) < math.inf
    assert pure_ldp.converted_f(pure_ldp.LARGE) == 0.0


def test_one_value_in_a_public_range_spends_epsilon() -> None:
    """Of ``timeseries_dp``: a truncated Laplace number of scale 2 / epsilon on [-1, 1]."""
    grid = np.linspace(-1.0, 1.0, 201)
    weights = [np.exp(-np.abs(grid - value) / 2.0) for value in np.linspace(-1.0, 1.0, 21)]
    laws = [dict(enumerate(row / row.sum())) for row in weights]
    assert exact.epsilon(laws) == pytest.approx(1.0)
    # of 3, scaled to [1, 3]: more than 2, which 2 is never scaled back to
    assert sum(mass for y, mass in laws[-1].items() if grid[y] > 0.0) == pytest.approx(
        -math.expm1(-0.5) / -math.expm1(-1.0), abs=5e-3
    )


def test_one_place_spends_epsilon_times_its_distance() -> None:
    """``metric_privacy``: a direction, and a gamma distance of shape 2."""
    east = np.linspace(-5_000.0, 5_000.0, 101)
    north = east[:, np.newaxis]

    def log_density(x: int) -> Any:
        radius = np.hypot(east - x * trasgodp.APART, north) + 1e-9
        law = stats.gamma(2, scale=1.0 / trasgodp.PER_METRE)
        return law.logpdf(radius) - np.log(2.0 * math.pi * radius)

    ratio = np.abs(log_density(0) - log_density(1)).max()
    assert ratio == pytest.approx(the("trasgoDP", "metric_privacy", "parallel").exact, rel=1e-6)


def test_bloom_filters_spend_the_claim_if_set_bits_are_cleared() -> None:
    finding = the("pure-ldp", "RAPPORClient")
    cleared = []
    for ones in ((0, 1), (2, 3)):
        share = [1.0 - pure_ldp.F / 2.0 if i in ones else pure_ldp.F / 2.0 for i in range(4)]
        cleared.append(exact.product(exact.bit(one) for one in share))
    assert exact.epsilon(cleared) == pytest.approx(finding.epsilon)
    assert finding.exact == math.inf


@pytest.mark.parametrize(
    ("library", "name", "setting", "epsilon"),
    [
        ("nprr", "nprr", "G 9", math.log(1.0 + E1 * 18.0 / 10.0)),
        ("nprr", "nprr", "G 1", 1.0),
        ("ornl-presto", "hadamard_response", "", math.log(1.0 + 4.0 * math.e)),
        ("hll-py", "HyperLogLogLDP", "", 4.0 + 64.0 * math.log(2.0)),
        ("diffpriv-pure", "private_count", "epsilon 1e-15", math.inf),
        ("diffpriv-pure", "private_count", "any epsilon", math.inf),
        ("pure-ldp", "RAPPORClient.convert_eps_to_f", "", math.inf),
        (
            "trasgoDP",
            "dp_clip_laplace_array",
            "",
            math.log(stats.laplace.cdf(0.5, 0, 4) / stats.laplace.cdf(0.5, 4, 4)),
        ),
    ],
)
def test_closed_forms(library: str, name: str, setting: str, epsilon: float) -> None:
    assert the(library, name, setting).exact == pytest.approx(epsilon, rel=1e-9)


def test_the_grid_is_right_if_the_ends_are_as_likely_as_the_rest() -> None:
    r = E1 / (math.e + nprr.G)
    even = exact.uniform(range(nprr.G + 1))
    laws = [exact.mixture([(r, {x: 1.0}), (1.0 - r, even)]) for x in range(nprr.G + 1)]
    assert exact.epsilon(laws) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("finding", "mu"),
    [
        (the("ornl-presto", "applyDPGaussian", "default"), 1.0 / presto.SIGMA),
        (the("ornl-presto", "applyDPGaussian", "sensitivity"), 10.0 / presto.SIGMA),
        (the("diffpriv-pure", "gaussian_sigma"), 1.0 / diffpriv_pure.SIGMA),
    ],
)
def test_gaussians(finding: Finding, mu: float) -> None:
    """At the exact epsilon exactly delta is left over, by the two normal tails."""
    epsilon = finding.exact
    tails = stats.norm.cdf([mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu])
    assert tails[0] - math.exp(epsilon) * tails[1] == pytest.approx(finding.delta, rel=1e-6)


@pytest.mark.parametrize(
    ("finding", "uses", "each"),
    [
        (the("diffpriv-pure", "advanced_composition"), 100, 1.0),
        (the("dp-accounting", "PLDAccountant"), 20, 0.5),
    ],
)
def test_repeated_responses(finding: Finding, uses: int, each: float) -> None:
    """At the exact epsilon exactly delta is left over, summed over the number of ones."""
    kept = math.exp(each) / (1.0 + math.exp(each))
    ones = np.arange(uses + 1)
    p, q = (stats.binom.pmf(ones, uses, share) for share in (kept, 1.0 - kept))
    left = np.maximum(p - math.exp(finding.exact) * q, 0.0).sum()
    assert left == pytest.approx(finding.delta, rel=1e-6)


def test_repeated_responses_are_composed_right_one_by_one() -> None:
    """And charged as one by count, which is what the page accuses."""
    finding = the("dp-accounting", "PLDAccountant")
    assert dp_accounting.accounted(one_by_one=True) == pytest.approx(finding.exact, abs=1e-2)
    alone = math.log((math.exp(0.5) / (1.0 + math.exp(0.5)) - 1e-3) * (1.0 + math.exp(0.5)))
    assert finding.epsilon == pytest.approx(alone, abs=1e-3)


def test_the_packages_say_these_numbers() -> None:
    try:
        pure = load("diffpriv_pure")
        oracles = load("pure_ldp.frequency_oracles.rappor", "statsmodels", "statsmodels.api")
        assert all(package.__name__ for package in (pure, oracles))
    except ImportError:
        pytest.skip("the packages are not installed: python -m benchmarks.found_in_the_wild")
    sigma = pure.gaussian_sigma(1.0, diffpriv_pure.LARGE, diffpriv_pure.DELTA)
    assert sigma == pytest.approx(diffpriv_pure.SIGMA)
    composed = pure.PrivacyBudget(1.0).advanced_composition(100, 1.0, diffpriv_pure.EACH)
    assert composed == pytest.approx((diffpriv_pure.COMPOSED, 1e-3))
    server = oracles.RAPPORServer(pure_ldp.F, pure_ldp.M, 2, 4)
    assert server.epsilon == pytest.approx(the("pure-ldp", "RAPPORClient").epsilon)
    for epsilon in (1.0, 5.0, 9.0, 11.97, pure_ldp.LARGE):
        assert server.convert_eps_to_f(epsilon) == pure_ldp.converted_f(epsilon)
    assert {pure.geometric_noise(e) for e in (diffpriv_pure.TINY, 34.6) for _ in range(9)} == {0}
    assert all(pure.geometric_noise(1e-14) for _ in range(9))


def test_a_callable_draws_from_the_generator_that_it_is_given() -> None:
    @at_once()
    def draw(x: int, size: int) -> Any:
        return [x + random.random() + np.random.random() for _ in range(size)]  # noqa: NPY002

    first, same, other = (draw(1, np.random.default_rng(seed), 5) for seed in (3, 3, 4))
    assert np.array_equal(first, same)
    assert not np.any(first == other)
    assert len(set(first)) == 5


@pytest.mark.parametrize("finding", known(), ids=lambda f: f"{f.library}-{f.name}-{f.setting}")
def test_the_row_is_kept(finding: Finding) -> None:
    """With today's numbers, and a verdict that follows from the exact epsilon or is milder."""
    bound, verdict, draws = ROWS[wild.known(finding)][5:8]
    shown = math.inf if bound == "infinite" else float(bound)
    assert shown <= finding.exact * (1.0 + 5e-4)  # four digits are shown
    kept = Verdict.CONSISTENT if draws == "proved" else Verdict.UNSUBSTANTIATED
    assert verdict == (Verdict.VIOLATED if finding.broken else kept)
    if draws == "proved":
        assert bound == wild.number(finding.exact)


def test_no_row_is_of_what_is_gone_and_the_page_counts_them() -> None:
    left = set(ROWS) - {wild.known(finding) for finding in known()}
    assert {cells[0].split()[0] for cells in left} <= {"diffprivlib"}
    broken = [cells for cells in ROWS.values() if cells[6] == Verdict.VIOLATED]
    assert f"{len(broken)} of {len(ROWS)} mechanisms" in PAGE
    infinite = sum(cells[4] == "infinite" for cells in broken)
    assert f"{infinite} of them" in PAGE
    rows = re.findall(r"^\| ([\w-]+ [\d.]+) \| `(.*?)` \| (\S+) \| (\S+) \|", PAGE, re.MULTILINE)
    assert len(rows) > 10
    kept = {(c[0], c[1], c[3].split(" at ")[0], c[4]) for c in broken}
    assert set(rows) <= kept


def test_the_table_marks_where_a_milder_reading_holds() -> None:
    marked = {(f.library, f.name) for f in known() if f.holds_if}
    assert marked == {
        ("multi-freq-ldpy", "SS_Client"),
        ("multi-freq-ldpy", "RSpFD_GRR_Client"),
        ("multi-freq-ldpy", "RSpFD_UE_zero_Client"),
        ("multi-freq-ldpy", "L_SUE_Client"),
        ("privateAB", "disclapu"),
        ("trasgoDP", "metric_privacy"),
        ("trasgoDP", "dp_exponential_array"),
    }
    assert "course" in the("hll-py", "HyperLogLogLDP").setting
    assert "one author" in the("syndp", "TimeDP, bounded Laplace").setting


@pytest.mark.parametrize("finding", known(), ids=lambda f: f"{f.library}-{f.name}-{f.setting}")
def test_the_command_names_what_was_measured(finding: Finding) -> None:
    program, target = finding.command.split()[:2]
    if finding.command.startswith("auditor verify benchmarks."):
        module, _, name = finding.command.split()[2].partition(":")
        assert getattr(importlib.import_module(module), name) is finding.call
    else:
        assert (program, target) in {("python", "-m"), ("auditor", "verify")}


def test_a_page_says_what_was_refuted_what_was_not_and_what_is_missing() -> None:
    def finding(epsilon: float, exact_epsilon: float, sample: Callable[..., Any]) -> Finding:
        return Finding(
            library="dp-accounting",
            name=f"bit_{epsilon:g}",
            call=Density(sample=sample, log_prob=log_prob),
            epsilon=epsilon,
            inputs=(0, 1),
            exact=exact_epsilon,
            claim="a claim",
            remark="a reason",
            holds_if="nobody looks",
            again="auditor verify it",
        )

    def draw(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < 0.75, x, 1 - x)

    def log_prob(output: Any, x: int) -> Any:
        return np.log(np.where(np.asarray(output) == x, 0.75, 0.25))

    pair = finding(1.0, math.log(3.0), draw), finding(1.2, 1.0986, draw)
    text = wild.page([(f, wild.seen(f, f.verify())) for f in pair], {"gone": "no such version"})
    refuted, rest = text.split("## Not refuted (1)")
    assert "## More is spent than claimed (1)" in refuted
    assert "`bit_1` |  | 1 | 1.099 | 1.099 | VIOLATED | exact | none | nobody looks |" in refuted
    assert "- **Holds if** nobody looks." in refuted
    assert "- **Exact.** Epsilon 1.099: a reason." in refuted
    assert "- **Command.** `auditor verify it`" in refuted
    assert "bit_1.2" in rest
    assert rest.count("| none | a claim | `auditor verify it` |") == 1
    assert "VIOLATED" not in rest
    assert "- gone: no such version" in rest
