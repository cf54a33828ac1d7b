"""Federated matrix factorization (Li, Ding, Zhang, Li, Zhou: PVLDB 2022): headings 21 to 28."""

from __future__ import annotations

from fedrec_auditor.accountants.statements.scope import Adjacency, Unit, Vantage
from fedrec_auditor.targets.catalogue.entry import Entry
from fedrec_auditor.targets.catalogue.parts import federated_mf_numbers as numbers
from fedrec_auditor.targets.catalogue.parts.federated_mf_numbers import DELTA, EXACT, STEPS
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import scope_of
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import PAPER

_RATING, _USER = scope_of(Unit.RATING), scope_of(Unit.USER)
_SUM = scope_of(Unit.USER, Vantage.AGGREGATE)

_LFL = {"noise_multiplier": 1.0, "omega": 0.3, "delta": DELTA}
_EVERY_STEP = {"rounds": STEPS, "local_steps": 1}
_SLOW = 1e-15  # a learning rate at which item embeddings stay where they began

ENTRIES = (
    Entry(
        number="21",
        target="vfl-sgdmf",
        statement="With clipped embeddings one rating moves a step's sum by 2 R^(3/2) in V, or "
        "2 sqrt(2) R^(3/2) in U and V.",
        source=f"{PAPER}, sections 4.1.1 and 4.2",
        claimed="2 R^(3/2); 2 sqrt(2) R^(3/2)",
        provable="the same",
        reason="Right and attained, at orthogonal u and v of norm sqrt(R) and the rating R.",
        computed=numbers.sensitivities,
    ),
    Entry(
        number="21b",
        target="vfl-sgdmf",
        statement="A user of theta ratings moves it theta times as far.",
        source=f"{PAPER}, section 4.2 (per-user privacy after trimming)",
        claimed="theta Delta",
        provable="2 R^(3/2) sqrt(theta) in V; 2 R^(3/2) sqrt(theta^2 + theta) in U and V",
        reason="Valid and loose: gradients of different items stand in different rows of V.",
        computed=numbers.per_user,
    ),
    Entry(
        number="22",
        target="lfl-sgdmf",
        settings=_LFL,
        statement="Noise that is replaced under secure aggregation hides a user as sigma would.",
        source=f"{PAPER}, section 6.2, Theorem 5",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/sqrt(2 - omega), without dropouts",
        reason=(
            "The server also keeps the first sum, and what it is sent to replace the first noise "
            "tells of that noise. Theorem 5 names no unit; it is read here for a user."
        ),
        scope=_SUM,
        computed=numbers.replaced,
        repaired={"as_published": False},
        demonstration="lfl-replaced-noise",
    ),
    Entry(
        number="22b",
        target="lfl-sgdmf",
        settings={**_LFL, "as_published": False, "overstated": 2.0},
        statement="The same against a server that says twice as many devices survived.",
        source=f"{PAPER}, section 6.2, Theorem 5, with Figure 3d, step s2",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/sqrt(2), even repaired",
        reason=(
            "Devices take the server's word for the number that their second noise depends on; the "
            "paper has servers that follow the protocol. Theorem 5 names no unit; it is read here "
            "for a user."
        ),
        scope=_SUM,
        repaired={"overstated": 1.0},
    ),
    Entry(
        number="22c",
        target="lfl-sgdmf",
        settings={**_LFL, "as_published": False, "colluding": 0.5},
        statement="The same if half of the users tell the server what they sent.",
        source=f"{PAPER}, section 6.2, Theorem 5",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z sqrt(share of honest users), even repaired",
        reason=(
            "Every colluding user takes its share of the noise away; the paper has none. Theorem 5 "
            "names no unit; it is read here for a user."
        ),
        scope=_SUM,
        repaired={"colluding": 0.0},
    ),
    Entry(
        number="22d",
        target="lfl-sgdmf",
        statement="Figure 3d bounds what one device sends by 2 R^(3/2).",
        source=f"{PAPER}, Figure 3d, step s2",
        claimed="2 R^(3/2)",
        provable="unbounded without a projection of V; LFL-SGDMF here projects",
        reason="The server's step on V is not followed by the projection that the bound rests on.",
        computed=numbers.unprojected,
    ),
    Entry(
        number="23",
        target="vfl-sgdmf",
        settings={
            **_EVERY_STEP,
            "parties": 1,
            "tuning": 0,
            "learning_rate": _SLOW,
            "noise_multiplier": EXACT,
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
        computed=numbers.rows,
        repaired={"as_published": False},
        demonstration="hfl-drawn-rows",
    ),
    Entry(
        number="23b",
        target="vfl-sgdmf",
        settings={**_EVERY_STEP, "parties": 1, "tuning": 0, "unit": "user", "as_published": False},
        statement="Sampling rows amplifies the privacy of a user, if each is drawn by itself.",
        source=f"{PAPER}, sections 4.1.2 and 4.2, Proposition 2 and Theorem 4",
        claimed="T T' Gaussians, sampled at eta",
        provable="the same",
        reason="Nothing else shows whether a user was drawn: all of its ratings are the unit.",
        scope=_USER,
    ),
    Entry(
        number="24",
        target="hfl-sgdmf",
        settings=_EVERY_STEP,
        statement="At pre-trained user embeddings one rating moves a step's sum by 2 R^(3/2).",
        source=f"{PAPER}, section 5.2 and Figure 3c, step c1",
        claimed="T T' sampled Gaussians, for a sum moved by 2 R^(3/2)",
        provable="the same noise, for up to 2 R^(3/2) sqrt(2c - 1) by a user of c ratings",
        reason=(
            "The embedding is a noiseless function of all ratings of the user: one more turns it, "
            "and with it the gradients of all the others."
        ),
        scope=_RATING,
        place="counted as in Proposition 2",
        computed=numbers.embeddings,
        repaired={"as_published": False},
        demonstration="hfl-fitted-embeddings",
    ),
    Entry(
        number="24b",
        target="lfl-sgdmf",
        settings={"as_published": False},
        statement="The same where every user is a party, also with the repaired noise.",
        source=f"{PAPER}, section 6.2, Theorem 5, and Figure 3d, step c1",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/2, for one gradient is replaced by another",
        reason=(
            "A rating turns the fitted embedding, and another gradient may be drawn: sqrt(3/2) "
            "times as far, along one direction, in the worst case. Theorem 5 names no unit; it is "
            "read here for a rating."
        ),
        scope=scope_of(Unit.RATING, Vantage.AGGREGATE),
        computed=numbers.drawn,
        demonstration="lfl-turned-gradient",
    ),
    Entry(
        number="25",
        target="vfl-sgdmf",
        settings={"unit": "user"},
        statement="Parties of eps_k at one delta hide a user with sqrt(sum eps_k^2) at that delta.",
        source=f"{PAPER}, section 4.2, Theorem 4",
        claimed="sqrt(sum eps_k^2)",
        provable="composition of all steps of all parties; sum eps_k in general",
        reason=(
            "The sum of squares is the leading order only, and rows are drawn in a fixed number; "
            "both are saved by a sensitivity that the paper takes too large (21b)."
        ),
        scope=_USER,
        computed=numbers.root_sum,
        repaired={"as_published": False},
    ),
    Entry(
        number="26",
        target="hfl-sgdmf",
        settings={
            "unit": "user",
            "trim": 1,
            "noise_multiplier": 2.0,
            "learning_rate": 1e-5,
        },
        statement="As printed, noise for T' sampled steps hides a user of one rating in T rounds.",
        source=f"{PAPER}, section 5.2, Proposition 3",
        claimed="T' = 10 Gaussians, sampled at eta",
        provable="T T' = 1,000 Gaussians, sampled at eta, up to 1.618 times as far apart",
        reason=(
            "T' steps are taken in each of T rounds: section 5.3 counts T T', as Proposition 2. "
            "For how far apart see 27c."
        ),
        scope=_USER,
        place="section 5.2, Proposition 3",
        computed=numbers.counted,
        demonstration="hfl-counted-steps",
    ),
    Entry(
        number="26b",
        target="hfl-sgdmf",
        settings={"unit": "user", "as_published": False},
        statement="With all T T' steps counted, a user is hidden as the accountant has it.",
        source=f"{PAPER}, sections 5.2 and 5.3",
        claimed="T T' Gaussians, sampled at eta",
        provable="the same, if each user is drawn by itself",
        reason="Proposition 3 repaired, by the count of section 5.3.",
        scope=_USER,
        place="counted as in Proposition 2",
    ),
    Entry(
        number="26c",
        target="hfl-sgdmf",
        statement="z^2 = c eta^2 T ln(1/delta)/eps^2 with a constant c.",
        source=f"{PAPER}, Propositions 2 and 3, Theorem 5",
        claimed="c, the same at every budget",
        provable="no constant",
        reason="The order of magnitude only, and of small epsilon; no c is printed either.",
        computed=numbers.constants,
    ),
    Entry(
        number="27",
        target="vfl-sgdmf",
        settings={"unit": "user"},
        statement="(eps, delta) for presence is (2 eps, 2 delta) for a user who is replaced.",
        source=f"{PAPER}, section 2.2.1",
        claimed="(2 eps, 2 delta)",
        provable="(2 eps, (1 + e^eps) delta)",
        reason=(
            "Removal and addition compose to e^eps delta + delta, and this is attained. What this "
            "training gives away is less: its sensitivity is taken too large (21b)."
        ),
        scope=scope_of(Unit.USER, adjacency=Adjacency.REPLACE),
        computed=numbers.both_ways,
    ),
    Entry(
        number="27b",
        target="vfl-sgdmf",
        statement="It is enough that the inequality of Definition 1 holds for every output.",
        source=f"{PAPER}, section 2.2, Definition 1",
        claimed="delta for each output",
        provable="delta for every set of outputs",
        reason="Where every output is rare, each may have its delta, and all of them have none.",
        computed=numbers.pointwise,
    ),
    Entry(
        number="27c",
        target="hfl-sgdmf",
        settings={"unit": "user"},
        statement="The moments accountant holds for n' rows drawn without replacement.",
        source=f"{PAPER}, sections 2.2, 4.1.2 and 5.2",
        claimed="Poisson-sampled Gaussians",
        provable="Poisson-sampled Gaussians, up to 1.618 times as far apart",
        reason=(
            "A user who comes takes another one's place in a batch of fixed size, and of two users "
            "one may move V up as far as the other moves it down: the golden ratio, in all. For "
            "theta = 10 this is saved by a sensitivity that the paper takes sqrt(theta) times too "
            "large (21b)."
        ),
        scope=_USER,
        place="counted as in Proposition 2",
        repaired={"as_published": False},
    ),
    Entry(
        number="27d",
        target="hfl-sgdmf",
        statement="Gradients divided by n' m' tau are protected by noise for the sum.",
        source=f"{PAPER}, sections 3.1 and 4.1.3",
        claimed="the same noise in all data sets, at the scale of the gradient",
        provable="noise on the sum, divided by a public number",
        reason=(
            "tau, |Omega_k| and n_k are data themselves and unprotected; and noise that is added "
            "after the division is hundreds of times too large."
        ),
        computed=numbers.divisor,
        demonstration="hfl-divisor",
    ),
    Entry(
        number="27e",
        target="hfl-sgdmf",
        statement="The epsilon of the training with the least training loss is that of one alone.",
        source=f"{PAPER}, section 4.3 (hyper-parameters)",
        claimed="one training",
        provable="all trainings that were tried",
        reason=(
            "The loss of every trial is computed from the ratings, and nothing is charged. The "
            "paper says that a part of the budget can be set aside for this; its results do not."
        ),
        computed=numbers.tuning,
    ),
    Entry(
        number="28",
        target="vfl-sgdmf",
        settings={"as_published": False},
        statement="Of a rating, which is with one party, all parties give away no more than one.",
        source=f"{PAPER}, section 4.2, Theorem 3 and Proposition 1",
        claimed="max over parties of eps_k",
        provable="the same, for right eps_k",
        reason="Parallel composition: the parties' data are disjoint, whatever the rating's value.",
        scope=_RATING,
    ),
    Entry(
        number="28b",
        target="vfl-sgdmf",
        statement="The projection after a noisy step costs nothing, and is to the nearest point.",
        source=f"{PAPER}, section 4.1.1 and equation 7",
        claimed="0",
        provable="0",
        reason="Post-processing of what is noisy already.",
        computed=numbers.projection,
    ),
    Entry(
        number="28c",
        target="vfl-sgdmf",
        statement="The last kappa steps, on items alone, have sensitivity 2 R^(3/2).",
        source=f"{PAPER}, sections 4.1.4 and 4.2",
        claimed="2 R^(3/2)",
        provable="2 R^(3/2)",
        reason="User embeddings are fixed then and known; right, and attained.",
        computed=numbers.last_steps,
    ),
)
