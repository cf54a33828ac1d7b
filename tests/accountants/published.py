"""Published epsilons, and epsilons of closed forms, each with its source.

Data only: ``test_published.py`` computes each again without the accountants, so that a wrongly
remembered number shows, and then compares the accountants. "From memory" in a source says that the
text was not at hand when the row was written; the number counts because it is recomputed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from fedrec_auditor.accountants.statements import Scope
from tests.contracts.events import PRESENCE, SCOPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """An exact epsilon, which tight accountants attain and no accountant undercuts."""

    event: DpEvent
    delta: float
    epsilon: float
    source: str
    scope: Scope = SCOPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """An epsilon of the moments accountant: n Poisson-sampled Gaussians, classic conversion.

    ``printed`` has ``digits`` decimals. Tight accountants are at most as large, and at least the
    lower bound by losses rounded down.
    """

    rate: float
    noise: float
    steps: int
    delta: float
    printed: float
    digits: int
    source: str

    @property
    def event(self) -> DpEvent:
        one = PoissonSampledDpEvent(self.rate, GaussianDpEvent(self.noise))
        return SelfComposedDpEvent(one, self.steps)


_BALLE_WANG = "Balle and Wang 2018, Theorem 8, solved to 50 digits with mpmath"
_CLASSIC = math.sqrt(2 * math.log(1.25e5))

GAUSSIANS = tuple(
    Exact(
        event=SelfComposedDpEvent(GaussianDpEvent(noise), count),
        delta=delta,
        epsilon=epsilon,
        source=source,
    )
    for noise, count, delta, epsilon, source in (
        (1.0, 1, 1e-5, 4.377178095681225, _BALLE_WANG),
        (1.0, 1, 1e-6, 4.886554117462212, _BALLE_WANG),
        (5.0, 25, 1e-10, 6.547924066864951, _BALLE_WANG),
        (0.01, 1, 1e-5, 5425.50984614743, _BALLE_WANG),
        (1000.0, 1, 1e-5, 0.00193872496986011, _BALLE_WANG),
        (1.0, 1, 1e-300, 37.4488479121391, _BALLE_WANG),
        (
            1.0,
            1,
            0.12693673750664395,
            1.0,
            "Dong, Roth and Su 2022, Corollary 1 at mu = 1, eps = 1; delta to 50 digits",
        ),
        (
            3.730631634816464,
            1,
            1e-5,
            1.0,
            "Balle and Wang 2018, calibration of their published code at (1, 1e-5), from memory",
        ),
        (37.30631634816464, 100, 1e-5, 1.0, "the same, a hundred times at ten times the noise"),
        # sqrt(2 ln(1.25/delta))/eps is more than enough below eps = 1, and too little above.
        (_CLASSIC, 1, 1e-5, 0.7509769568672047, f"classic noise for 1; {_BALLE_WANG}"),
        (2 * _CLASSIC, 1, 1e-5, 0.3525724918666094, f"classic noise for 0.5; {_BALLE_WANG}"),
        (_CLASSIC / 10, 1, 1e-5, 10.39388238122228, f"classic noise for 10; {_BALLE_WANG}"),
        (_CLASSIC / 100, 1, 1e-5, 300.1401441557671, f"classic noise for 100; {_BALLE_WANG}"),
    )
)

# (uses, epsilon of each, i): the epsilon at the delta_i of the theorem is exactly (k - 2 i) eps.
# Kairouz, Oh and Viswanath 2015, Theorem 3.3, eq. 9 at delta 0.
KAIROUZ_OH_VISWANATH = (
    (10, 0.5, 1),
    (10, 0.5, 3),
    (30, 2.0, 5),
    (100, 0.1, 30),
    (100, 0.1, 45),
    (2000, 0.25, 750),
    (2000, 0.25, 900),
    (50_000, 2.5, 3600),
)

# Different epsilons e1 >= e2 and delta below the mass of the second atom: a closed form.
# Murtagh and Vadhan 2016, Theorem 1.5 for k = 2: (1 - e^(eps - e1 - e2)) h1 h2 = delta.
MURTAGH_VADHAN = ((1.0, 0.5, 0.01), (3.0, 0.1, 1e-3), (0.2, 0.19, 1e-5), (40.0, 2.0, 1e-9))

_TUTORIAL = "TensorFlow Privacy, tutorials/README.md at commit 047e1ee, table and expected output"
MOMENTS = (
    Moments(
        rate=0.01,
        noise=4.0,
        steps=10_000,
        delta=1e-5,
        printed=1.26,
        digits=2,
        source="Abadi et al. 2016, section 3.2 and figure 2: q 0.01, sigma 4, E 100, from memory",
    ),
    *(
        Moments(
            rate=256 / 60_000,
            noise=noise,
            steps=steps,
            delta=1e-5,
            printed=printed,
            digits=2,
            source=f"{_TUTORIAL}: {name}",
        )
        for noise, steps, printed, name in (
            (1.12, 60 * 60_000 // 256, 2.92, "noise 1.12, 60 epochs"),
            (1.2, 10 * 60_000 // 256, 1.20, "noise 1.2, 10 epochs"),
            (1.12, 2 * 60_000 // 256, 1.04, "noise 1.12, after 2 epochs"),
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """An upper bound of another library for n Poisson-sampled Gaussians, under add-remove.

    ``error``: largest excess over the exact epsilon that the library states; None for Rényi bounds.
    """

    rate: float
    noise: float
    steps: int
    delta: float
    epsilon: float
    source: str
    error: float | None = None


_OPACUS = "Opacus, opacus/tests/accountants_test.py"
_TF_PRIVACY = "TensorFlow Privacy, privacy/analysis/compute_dp_sgd_privacy_test.py"
PRINTED = (
    Printed(
        rate=0.04,
        noise=1.5,
        steps=2250,
        delta=1e-5,
        epsilon=6.777395712150674,
        source=f"{_OPACUS}, test_prv_accountant: eps_error 0.01",
        error=0.01,
    ),
    Printed(
        rate=0.04,
        noise=1.5,
        steps=2250,
        delta=1e-5,
        epsilon=7.32911117143,
        source=f"{_OPACUS}, test_rdp_accountant",
    ),
    Printed(
        rate=150 / 60_000,
        noise=1.3,
        steps=6000,
        delta=1e-5,
        epsilon=0.7242234026109595,
        source=f"{_TF_PRIVACY}, Test0: Renyi",
    ),
    Printed(
        rate=100 / 100_000,
        noise=1.0,
        steps=30_000,
        delta=1e-7,
        epsilon=1.4154988495444845,
        source=f"{_TF_PRIVACY}, Test1: Renyi",
    ),
    Printed(
        rate=256 / 60_000,
        noise=1.12,
        steps=60 * 60_000 // 256,
        delta=1e-5,
        epsilon=2.95,
        source="opacus.ai/api/compute_dp_sgd_privacy.html, its example: orders 10, 20, 100",
    ),
    Printed(
        rate=250 / 60_000,
        noise=1.3,
        steps=15 * 240,
        delta=1e-5,
        epsilon=1.18,
        source="TensorFlow Privacy's tutorial on MNIST, batch 250, 15 epochs; from memory",
    ),
    Printed(
        rate=0.01,
        noise=1.1,
        steps=1000,
        delta=1e-6,
        epsilon=1.9767497,
        source="dp-accounting 0.6.0, RdpAccountant with Opacus' orders (1.1 to 10.9, 12 to 63)",
    ),
    Printed(
        rate=0.01,
        noise=1.1,
        steps=1000,
        delta=1e-6,
        epsilon=1.7529854,
        source="dp-accounting 0.6.0, PLDAccountant",
        error=1e-4,
    ),
)

# Steps, and the noise for epsilon 8 at rate 0.04 and delta 1e-5, by PRV and by Rényi; from the same
# file, test_get_noise_multiplier_{prv,rdp}_{epochs,steps}.
OPACUS_NOISE = ((2250, 1.34765625, 1.416), (2000, 1.2915, 1.3562))

LIBRARY = (
    Exact(
        event=ComposedDpEvent(
            [
                SelfComposedDpEvent(LaplaceDpEvent(1.0), 3),
                SelfComposedDpEvent(LaplaceDpEvent(2.0), 2),
            ]
        ),
        delta=0.0,
        epsilon=4.0,
        source="dp-accounting 0.6.0, pld_privacy_accountant_test.py, test_laplace_basic",
    ),
    Exact(
        event=SelfComposedDpEvent(PoissonSampledDpEvent(0.2, LaplaceDpEvent(0.5)), 3),
        delta=0.0,
        epsilon=3 * math.log(0.8 + 0.2 * math.exp(2)),
        source="dp-accounting 0.6.0, pld_privacy_accountant_test.py, prints 2.46964",
        scope=PRESENCE,
    ),
)

# k, delta, and the epsilon of each part that is said to keep the composition within 1. Dwork and
# Roth 2014, section 3.5.2: Bob's 10,000 databases, from memory. Their Theorem 3.20 gives 1.0143,
# slightly above 1; that of Kairouz, Oh and Viswanath gives less than 1.
DWORK_ROTH = (10_000, math.exp(-32), 1 / 801)
