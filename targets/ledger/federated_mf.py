"""Federated matrix factorization (Li, Ding, Zhang, Li, Zhou: PVLDB 2021): headings 21 to 28."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from accountants.methods.pld import Pld
from accountants.scope import Adjacency, Horizon, Scope, Unit, Vantage
from targets.ledger._gradients import largest, nearest, turned, unclipped
from targets.ledger.entry import Computed, Entry
from targets.mechanisms.bit_flip import BitFlip
from targets.mechanisms.noise_replacement import NoiseReplacement
from targets.mechanisms.repeated import Repeated
from targets.systems._local_laws import rating_distance
from targets.systems._sgd_mf import PAPER, accounted, batch_size
from targets.systems.hfl_sgdmf import HflSgdmf
from targets.systems.lfl_sgdmf import LflSgdmf

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_R = 5.0
_ONE = 2.0 * _R * math.sqrt(_R)
_ETA, _STEPS, _DELTA = 0.01, 1000, 1e-5
_EXACT = 1.4144  # z for which T T' = 1000 Poisson-sampled steps are worth epsilon 1
_TEN = 0.7791  # z for which ten of them are


def _scope(
    unit: Unit,
    vantage: Vantage = Vantage.SERVER,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Scope:
    return Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=Horizon.TRAINING)


_RATING, _USER = _scope(Unit.RATING), _scope(Unit.USER)
_SUM = _scope(Unit.USER, Vantage.AGGREGATE)


def _epsilon(event: DpEvent, delta: float = _DELTA) -> float:
    return Pld().bound(event, delta=delta, scope=_USER).epsilon


def _sampled(z: float, steps: int) -> float:
    """Epsilon of Poisson-sampled Gaussians, as the paper's accountant means them."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    one = PoissonSampledDpEvent(_ETA, GaussianDpEvent(z))
    return _epsilon(SelfComposedDpEvent(one, steps))


def _sensitivities() -> tuple[Computed, ...]:
    return tuple(
        Computed(
            what=f"longest gradient of one rating in {table}, R = 5",
            claimed=said,
            right=largest(_R, ratings=1, joint=joint),
            how="all u, v of equation 6 and ratings on a grid, with the systems' gradients",
        )
        for table, said, joint in (
            ("V", _ONE, False),
            ("U and V", math.sqrt(2.0) * _ONE, True),
        )
    )


def _per_user() -> tuple[Computed, ...]:
    theta = 5
    return tuple(
        Computed(
            what=f"longest gradient of a user of theta = 5 ratings in {table}, R = 5",
            claimed=theta * one,
            right=largest(_R, ratings=theta, joint=joint),
            how=f"as for one rating, {theta} of them: gradients in V are on rows of their own",
        )
        for table, one, joint in (
            ("V", _ONE, False),
            ("U and V", math.sqrt(2.0) * _ONE, True),
        )
    )


def _replaced() -> tuple[Computed, ...]:
    """Four of the settings in which Theorem 5 fails."""
    found = []
    for z in (1.0, 5.0):
        for omega in (0.3, 0.6):
            system = LflSgdmf(noise_multiplier=z, omega=omega)
            seen = NoiseReplacement(
                sigma=system.sigma,
                sensitivity=system.sensitivity,
                n_users=100,
                omega=omega,
                masked=100,
                replaced=100,
            )
            found.append(
                Computed(
                    what=f"epsilon of T = 10 rounds at sigma/Delta = {z:g}, omega = {omega}",
                    claimed=system.claimed,
                    right=_epsilon(Repeated(seen, system.rounds).event()),
                    tolerance=1e-6,
                    how="both rounds of messages, without dropouts: variance sigma^2/(2 - omega)",
                )
            )
    return tuple(found)


def _unprojected() -> tuple[Computed, ...]:
    return (
        Computed(
            what="gradient of one rating at an item ten times as long as equation 6 allows, R = 5",
            claimed=_ONE,
            right=unclipped(_R, length=10.0),
            how="2 |u| |x - u.v|, which grows with v without end; Figure 3d does not project V",
        ),
    )


def _rows() -> tuple[Computed, ...]:
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

    from accountants.events import RevealedSamplingDpEvent

    told = RevealedSamplingDpEvent(_ETA, GaussianDpEvent(_EXACT))
    return (
        Computed(
            what="epsilon of a rating in 1,000 steps on one row in a hundred, delta 1e-5",
            claimed=_sampled(_EXACT, _STEPS),
            right=_epsilon(SelfComposedDpEvent(told, _STEPS)),
            how=(
                f"the mean over K ~ Binomial(1000, 0.01) of sqrt(K)/z at z = {_EXACT}, for which "
                "the Poisson accountant says 1"
            ),
        ),
    )


def _embeddings() -> tuple[Computed, ...]:
    system = HflSgdmf()
    return tuple(
        Computed(
            what=f"how far one rating moves a step's sum, in 2 R^(3/2), with {count} other ratings",
            claimed=1.0,
            right=turned(system.bound, ratings=count, fitting=system.fitting) / _ONE,
            how="a first V at which one rating turns the fitted embedding, and with it all rows",
        )
        for count in (10, 100)
    )


def _drawn() -> tuple[Computed, ...]:
    system = LflSgdmf()
    return (
        Computed(
            what="how far one rating moves what a device sends, in 2 R^(3/2), with another one",
            claimed=1.0,
            right=rating_distance(system.bound, system.factors, system.fitting) / _ONE,
            how="fitted with it and without, at a first V that turns; the nearer of what is drawn",
        ),
    )


def _root_sum() -> tuple[Computed, ...]:
    from dp_accounting import SelfComposedDpEvent

    from accountants.events import PureDpEvent

    parties = 10
    one = _sampled(_EXACT, _STEPS)
    return (
        Computed(
            what="epsilon of ten parties of 1,000 sampled steps each, eps_k = 1, delta 1e-5",
            claimed=math.sqrt(parties) * one,
            right=_sampled(_EXACT, parties * _STEPS),
            tolerance=1e-3,
            how="10,000 sampled Gaussians composed",
        ),
        Computed(
            what="epsilon of ten parties of any mechanism of pure epsilon 1, delta 1e-5",
            claimed=math.sqrt(parties),
            right=_epsilon(SelfComposedDpEvent(PureDpEvent(1.0), parties)),
            how="ten randomized responses: the sum of epsilons, all but 1e-5 of the time",
        ),
    )


def _counted() -> tuple[Computed, ...]:
    return (
        Computed(
            what="epsilon of T T' = 1,000 steps where Proposition 3 accounts T' = 10, delta 1e-5",
            claimed=_sampled(_TEN, 10),
            right=_sampled(_TEN, _STEPS),
            how=f"the same accountant at z = {_TEN}, for as many steps as are taken",
        ),
    )


def _constants() -> tuple[Computed, ...]:
    """c of z^2 = c eta^2 T ln(1/delta)/eps^2 at two budgets."""

    def constant(z: float) -> float:
        epsilon = accounted(z, _ETA, _STEPS, _DELTA)
        return (z * epsilon / _ETA) ** 2 / (_STEPS * -math.log(_DELTA))

    return (
        Computed(
            what="c1 of Proposition 2 at z = 0.7, beside that at z = 2",
            claimed=constant(2.0),
            right=constant(0.7),
            how="solved for c1, with the epsilon of the paper's own accountant",
        ),
    )


def _both_ways() -> tuple[Computed, ...]:
    """A user, none, another one: three laws of one bit, each next to the one in the middle."""
    epsilon = 1.0
    rates = np.array([(1.0 + math.exp(epsilon)) * _DELTA, _DELTA, 0.0])

    def delta(one: int, other: int, at: float) -> float:
        law = BitFlip(float(rates[one]), float(rates[other]))
        table = np.exp(law.log_prob([[0, 1], [0, 1]], [[1, 1], [0, 0]]))
        return max(
            float(np.maximum(a - math.exp(at) * b, 0.0).sum()) for a, b in (table, table[::-1])
        )

    worst = max(delta(0, 1, epsilon), delta(1, 2, epsilon))
    return (
        Computed(
            what="delta of a replacement at 2 eps, where presence has delta 1e-5 at eps = 1",
            claimed=2.0 * worst,
            right=delta(0, 2, 2.0 * epsilon),
            tolerance=1e-9 * _DELTA,
            how="a bit shown with probability (1 + e^eps) delta, delta or 0: exact divergences",
        ),
    )


def _pointwise() -> tuple[Computed, ...]:
    """An input that is sent with one of 1,000 random tags: no output is likely."""
    tags = 1000
    table = np.zeros((2, 2 * tags))
    table[0, :tags] = table[1, tags:] = 1.0 / tags
    least = float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).max())
    return (
        Computed(
            what="delta at eps = 1 of a bit sent in the clear, beside one of 1,000 random tags",
            claimed=least,
            right=float(np.maximum(table[0] - math.exp(1.0) * table[1], 0.0).sum()),
            how="over sets of outputs, where Definition 1 looks at one output after the other",
        ),
    )


def _divisor() -> tuple[Computed, ...]:
    system, n, m = HflSgdmf(), 94, 1682
    few, more = (float(system.pace(n, m, ratings)) for ratings in (1, 2))
    return (
        Computed(
            what="scale of the noise of a party with two ratings, beside one with one",
            claimed=1.0,
            right=more / few,
            how="gradient and noise are divided by the number of ratings, which is in the data",
        ),
        Computed(
            what="noise multiplier if noise for a sum is added after the division, ML-100K",
            claimed=1.0,
            right=float(batch_size(943, _ETA)) * 100_000 / 943,
            how="the sum is divided by n' m' tau, and noise of z Delta added to what is left",
        ),
    )


def _tuning() -> tuple[Computed, ...]:
    runs = 5
    return (
        Computed(
            what=f"epsilon if {runs} learning rates are tried on the training data, eps = 1 each",
            claimed=_sampled(_EXACT, _STEPS),
            right=_sampled(_EXACT, runs * _STEPS),
            tolerance=1e-3,
            how="all trainings composed, of which the best is chosen by its training loss",
        ),
    )


def _projection() -> tuple[Computed, ...]:
    return (
        Computed(
            what="how much farther than the nearest feasible point the projection ends",
            claimed=1e-9,
            right=nearest(_R),
            below=True,
            how="sixty points beside a grid of the set: negative entries to 0, then the norm",
        ),
    )


def _last_steps() -> tuple[Computed, ...]:
    return (
        Computed(
            what="longest gradient of one rating in the last kappa steps, on items alone, R = 5",
            claimed=_ONE,
            right=largest(_R, ratings=1, joint=False),
            how="all u, v of equation 6 and ratings on a grid, with the systems' gradients",
        ),
    )


_LFL = {"noise_multiplier": 1.0, "omega": 0.3, "delta": _DELTA}
_EVERY_STEP = {"rounds": _STEPS, "local_steps": 1}
_SLOW = 1e-15  # a learning rate at which item embeddings stay where they began

ENTRIES = (
    Entry(
        heading=21,
        target="vfl-sgdmf",
        statement="With clipped embeddings one rating moves a step's sum by 2 R^(3/2) in V, or "
        "2 sqrt(2) R^(3/2) in U and V.",
        source=f"{PAPER}, sections 4.1.1 and 4.2",
        claimed="2 R^(3/2); 2 sqrt(2) R^(3/2)",
        provable="the same",
        reason="Right and attained, at orthogonal u and v of norm sqrt(R) and the rating R.",
        computed=_sensitivities,
    ),
    Entry(
        heading=21,
        part="b",
        target="vfl-sgdmf",
        statement="A user of theta ratings moves it theta times as far.",
        source=f"{PAPER}, section 4.2 (per-user privacy after trimming)",
        claimed="theta Delta",
        provable="2 R^(3/2) sqrt(theta) in V; 2 R^(3/2) sqrt(theta^2 + theta) in U and V",
        reason="Valid and loose: gradients of different items stand in different rows of V.",
        computed=_per_user,
    ),
    Entry(
        heading=22,
        target="lfl-sgdmf",
        settings=_LFL,
        statement="Noise that is replaced under secure aggregation hides a user as sigma would.",
        source=f"{PAPER}, section 6.2, Theorem 5",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/sqrt(2 - omega), without dropouts",
        reason=(
            "The server also keeps the first sum, and what it is sent to replace the first noise "
            "tells of that noise."
        ),
        scope=_SUM,
        computed=_replaced,
        repaired={"faithful": False},
        demonstration="lfl-replaced-noise",
    ),
    Entry(
        heading=22,
        part="b",
        target="lfl-sgdmf",
        settings={**_LFL, "faithful": False, "overstated": 2.0},
        statement="The same against a server that says twice as many devices survived.",
        source=f"{PAPER}, section 6.2, Theorem 5, with Figure 3d, step s2",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/sqrt(2), even repaired",
        reason=(
            "Devices take the server's word for the number that their second noise depends on; the "
            "paper has servers that follow the protocol."
        ),
        scope=_SUM,
        repaired={"overstated": 1.0},
    ),
    Entry(
        heading=22,
        part="c",
        target="lfl-sgdmf",
        settings={**_LFL, "faithful": False, "colluding": 0.5},
        statement="The same if half of the users tell the server what they sent.",
        source=f"{PAPER}, section 6.2, Theorem 5",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z sqrt(share of honest users), even repaired",
        reason="Every colluding user takes its share of the noise away; the paper has none.",
        scope=_SUM,
        repaired={"colluding": 0.0},
    ),
    Entry(
        heading=22,
        part="d",
        target="lfl-sgdmf",
        statement="Figure 3d bounds what one device sends by 2 R^(3/2).",
        source=f"{PAPER}, Figure 3d, step s2",
        claimed="2 R^(3/2)",
        provable="unbounded without a projection of V; LFL-SGDMF here projects",
        reason="The server's step on V is not followed by the projection that the bound rests on.",
        computed=_unprojected,
    ),
    Entry(
        heading=23,
        target="vfl-sgdmf",
        settings={
            **_EVERY_STEP,
            "parties": 1,
            "tuning": 0,
            "learning_rate": _SLOW,
            "noise_multiplier": _EXACT,
            "n_users": 1000,
        },
        statement="Sampling rows at rate eta amplifies the privacy of one rating.",
        source=f"{PAPER}, sections 4.1.2 and 4.2, Proposition 2 and Theorem 3",
        claimed="T T' Gaussians, sampled at eta",
        provable="K Gaussians, K ~ Binomial(T T', eta), known to the adversary",
        reason=(
            "The user's other ratings show when the row is drawn; and this holds at any learning "
            "rate, so also where V hardly moves."
        ),
        scope=_RATING,
        computed=_rows,
        repaired={"faithful": False},
        demonstration="hfl-drawn-rows",
    ),
    Entry(
        heading=23,
        part="b",
        target="vfl-sgdmf",
        settings={**_EVERY_STEP, "parties": 1, "tuning": 0, "unit": "user", "faithful": False},
        statement="Sampling rows amplifies the privacy of a user, if each is drawn by itself.",
        source=f"{PAPER}, sections 4.1.2 and 4.2, Proposition 2 and Theorem 4",
        claimed="T T' Gaussians, sampled at eta",
        provable="the same",
        reason="Nothing else shows whether a user was drawn: all of its ratings are the unit.",
        scope=_USER,
    ),
    Entry(
        heading=24,
        target="hfl-sgdmf",
        settings=_EVERY_STEP,
        statement="At pre-trained user embeddings one rating moves a step's sum by 2 R^(3/2).",
        source=f"{PAPER}, section 5.2 and Figure 3c, step c1",
        claimed="2 R^(3/2)",
        provable="up to 2 R^(3/2) sqrt(2c - 1) for a user of c ratings",
        reason=(
            "The embedding is a noiseless function of all ratings of the user: one more turns it, "
            "and with it the gradients of all the others."
        ),
        scope=_RATING,
        place="counted as in Proposition 2",
        computed=_embeddings,
        repaired={"faithful": False},
        demonstration="hfl-fitted-embeddings",
    ),
    Entry(
        heading=24,
        part="b",
        target="lfl-sgdmf",
        settings={"faithful": False},
        statement="The same where every user is a party, also with the repaired noise.",
        source=f"{PAPER}, section 6.2, Theorem 5, and Figure 3d, step c1",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/2, for one gradient is replaced by another",
        reason=(
            "A rating turns the fitted embedding, and another gradient may be drawn: sqrt(3/2) "
            "times as far, along one direction, in the worst case."
        ),
        scope=_scope(Unit.RATING, Vantage.AGGREGATE),
        computed=_drawn,
    ),
    Entry(
        heading=25,
        target="vfl-sgdmf",
        settings={"unit": "user"},
        statement="Parties of eps_k at one delta hide a user with sqrt(sum eps_k^2) at that delta.",
        source=f"{PAPER}, section 4.2, Theorem 4",
        claimed="sqrt(sum eps_k^2)",
        provable="composition of all steps of all parties; sum eps_k in general",
        reason=(
            "The sum of squares is the leading order only; here it is saved by a sensitivity that "
            "the paper takes too large."
        ),
        scope=_USER,
        computed=_root_sum,
        repaired={"faithful": False},
    ),
    Entry(
        heading=26,
        target="hfl-sgdmf",
        settings={
            "unit": "user",
            "trim": 1,
            "noise_multiplier": 2.0,
            "learning_rate": 1e-5,
        },
        statement="Noise for T' sampled steps hides a user of one rating in all T rounds.",
        source=f"{PAPER}, section 5.2, Proposition 3",
        claimed="T' = 10 Gaussians, sampled at eta",
        provable="T T' = 1,000 Gaussians, sampled at eta",
        reason="T' steps are taken in each of T rounds: section 5.3 counts T T', as Proposition 2.",
        scope=_USER,
        place="section 5.2, Proposition 3",
        computed=_counted,
        demonstration="hfl-counted-steps",
    ),
    Entry(
        heading=26,
        part="b",
        target="hfl-sgdmf",
        settings={"unit": "user", "faithful": False},
        statement="With all T T' steps counted, a user is hidden as the accountant has it.",
        source=f"{PAPER}, sections 5.2 and 5.3",
        claimed="T T' Gaussians, sampled at eta",
        provable="the same, if each user is drawn by itself",
        reason="Proposition 3 repaired, by the count of section 5.3.",
        scope=_USER,
        place="counted as in Proposition 2",
    ),
    Entry(
        heading=26,
        part="c",
        target="hfl-sgdmf",
        statement="z^2 = c eta^2 T ln(1/delta)/eps^2 with a constant c.",
        source=f"{PAPER}, Propositions 2 and 3, Theorem 5",
        claimed="c, the same at every budget",
        provable="no constant",
        reason="The order of magnitude only, and of small epsilon; no c is printed either.",
        computed=_constants,
    ),
    Entry(
        heading=27,
        target="vfl-sgdmf",
        settings={"unit": "user"},
        statement="(eps, delta) for presence is (2 eps, 2 delta) for a user who is replaced.",
        source=f"{PAPER}, section 2.2.1",
        claimed="2 delta",
        provable="(1 + e^eps) delta",
        reason="Removal and addition compose to e^eps delta + delta, and this is attained.",
        scope=_scope(Unit.USER, adjacency=Adjacency.REPLACE),
        computed=_both_ways,
    ),
    Entry(
        heading=27,
        part="b",
        target="vfl-sgdmf",
        statement="It is enough that the inequality of Definition 1 holds for every output.",
        source=f"{PAPER}, section 2.2, Definition 1",
        claimed="delta for each output",
        provable="delta for every set of outputs",
        reason="Where every output is rare, each may have its delta, and all of them have none.",
        computed=_pointwise,
    ),
    Entry(
        heading=27,
        part="c",
        target="hfl-sgdmf",
        settings={"unit": "user"},
        statement="The moments accountant holds for n' rows drawn without replacement.",
        source=f"{PAPER}, sections 2.2, 4.1.2 and 5.2",
        claimed="Poisson-sampled Gaussians",
        provable="Gaussians twice as far apart, in the steps in which the user is drawn",
        reason="A user who comes takes another one's place in a batch of fixed size.",
        scope=_USER,
        place="counted as in Proposition 2",
        repaired={"faithful": False},
    ),
    Entry(
        heading=27,
        part="d",
        target="hfl-sgdmf",
        statement="Gradients divided by n' m' tau are protected by noise for the sum.",
        source=f"{PAPER}, sections 3.1 and 4.1.3",
        claimed="the same noise in all data sets, at the scale of the gradient",
        provable="noise on the sum, divided by a public number",
        reason=(
            "tau, |Omega_k| and n_k are data themselves and unprotected; and noise that is added "
            "after the division is hundreds of times too large."
        ),
        computed=_divisor,
        demonstration="hfl-divisor",
    ),
    Entry(
        heading=27,
        part="e",
        target="hfl-sgdmf",
        statement="The learning rate with the lowest training loss costs no privacy.",
        source=f"{PAPER}, section 4.3 (hyper-parameters)",
        claimed="one training",
        provable="all trainings that were tried",
        reason="The loss of every trial is computed from the ratings, and nothing is charged.",
        computed=_tuning,
    ),
    Entry(
        heading=28,
        target="vfl-sgdmf",
        settings={"faithful": False},
        statement="Of a rating, which is with one party, all parties give away no more than one.",
        source=f"{PAPER}, section 4.2, Theorem 3 and Proposition 1",
        claimed="max over parties of eps_k",
        provable="the same, for right eps_k",
        reason="Parallel composition: the parties' data are disjoint, whatever the rating's value.",
        scope=_RATING,
    ),
    Entry(
        heading=28,
        part="b",
        target="vfl-sgdmf",
        statement="The projection after a noisy step costs nothing, and is to the nearest point.",
        source=f"{PAPER}, section 4.1.1 and equation 7",
        claimed="0",
        provable="0",
        reason="Post-processing of what is noisy already.",
        computed=_projection,
    ),
    Entry(
        heading=28,
        part="c",
        target="vfl-sgdmf",
        statement="The last kappa steps, on items alone, have sensitivity 2 R^(3/2).",
        source=f"{PAPER}, sections 4.1.4 and 4.2",
        claimed="2 R^(3/2)",
        provable="2 R^(3/2)",
        reason="User embeddings are fixed then and known; right, and attained.",
        computed=_last_steps,
    ),
)
