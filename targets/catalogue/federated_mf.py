"""Federated matrix factorization (Li, Ding, Zhang, Li, Zhou: PVLDB 2022): headings 21 to 28."""

from __future__ import annotations

from functools import partial

from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Adjacency, Unit, Vantage
from fedrec_auditor.targets.catalogue.entry import Entry
from fedrec_auditor.targets.catalogue.paper import Paper, ThreatModel
from fedrec_auditor.targets.catalogue.parts import federated_mf_numbers as numbers
from fedrec_auditor.targets.catalogue.parts.federated_mf_numbers import DELTA, EXACT, STEPS
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import scope_of
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import PAPER

_PAPER = Paper(
    title=PAPER,
    threat=ThreatModel(
        place="section 1.1, for all three settings",
        adversary="the coordination server and all other parties, none of whom a party has to "
        "trust: they may lie, send any table and collude",
        trusted="the party that holds the user's ratings, in the vertical setting each that does",
    ),
    symbols={
        "z": "noise multiplier: standard deviation of the noise over the sensitivity",
        "sigma": "standard deviation of the noise",
        "Delta": "sensitivity",
        "R": "largest rating there can be; embeddings are clipped to norm sqrt(R)",
        "U": "user embeddings",
        "V": "item embeddings",
        "T": "rounds",
        "T'": "local steps of a party in a round",
        "eta": "share of the rows drawn in a local step",
        "theta": "ratings of a user that are kept (trimming)",
        "kappa": "last steps, on item embeddings alone",
        "omega": "share of the devices that may drop out",
        "tau": "share of all ratings that are observed",
        "n'": "rows drawn in a local step",
        "eps_k": "epsilon of party k",
        "c": "ratings of the user",
        "eps": "epsilon of one training",
        "delta": "chance with which the bound eps may fail",
        "c1": "constant of Proposition 2",
        "u": "embedding of one user",
        "v": "embedding of one item",
        "m'": "items drawn in a local step",
        "n_k": "users of party k",
    },
)
_entry = partial(Entry, paper=_PAPER)
_RATING, _USER = scope_of(Unit.RATING), scope_of(Unit.USER)
_SUM = scope_of(Unit.USER, Vantage.AGGREGATE)

_LFL = {"noise_multiplier": 1.0, "omega": 0.3, "delta": DELTA}
_EVERY_STEP = {"rounds": STEPS, "local_steps": 1}
_SLOW = 1e-15  # a learning rate at which item embeddings stay where they began

ENTRIES = (
    _entry(
        number="21",
        target="vfl-sgdmf",
        statement="With clipped embeddings one rating moves a step's sum by 2 R^(3/2) in V, or "
        "2 sqrt(2) R^(3/2) in U and V.",
        source="sections 4.1.1 and 4.2",
        claimed="2 R^(3/2); 2 sqrt(2) R^(3/2)",
        provable="the same",
        reason="Right and attained, at orthogonal u and v of norm sqrt(R) and the rating R.",
        computed=numbers.sensitivities,
    ),
    _entry(
        number="21b",
        target="vfl-sgdmf",
        statement="A user of theta ratings moves a step's sum theta times as far as one rating.",
        source="section 4.2 (per-user privacy after trimming)",
        claimed="theta Delta",
        provable="2 R^(3/2) sqrt(theta) in V; 2 R^(3/2) sqrt(theta^2 + theta) in U and V",
        reason="Valid and loose: gradients of different items stand in different rows of V.",
        computed=numbers.per_user,
    ),
    _entry(
        number="21c",
        target="hfl-sgdmf",
        basis=Basis.DERIVED,
        statement="A user of one rating who is replaced moves the sum by twice 2 R^(3/2).",
        source="section 2.2.1 (twice the epsilon) with section 4.2",
        claimed="2 x 2 R^(3/2)",
        provable="1.618 x 2 R^(3/2) in one row of V, sqrt(2) x 2 R^(3/2) in two",
        reason=(
            "Two gradients of one item cannot be opposite and both longest, for embeddings are not "
            "negative: the golden ratio. Those of two items stand in different rows."
        ),
        computed=numbers.replaced_rating,
    ),
    _entry(
        number="22",
        target="lfl-sgdmf",
        settings=_LFL,
        statement="Noise that is replaced under secure aggregation hides a user as sigma would.",
        source="section 6.2, Theorem 5",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/sqrt(2 - omega), without dropouts",
        reason=(
            "The server also keeps the first sum, and what it is sent to replace the first noise "
            "tells of that noise. Theorem 5 names no unit, and says nowhere what its T_v is: read "
            "here for a user, who is the party, and as T."
        ),
        scope=_SUM,
        ours=True,
        computed=numbers.replaced,
        repaired={"as_published": False},
        demonstration="lfl-replaced-noise",
    ),
    _entry(
        number="22b",
        repeats="22",
        target="lfl-sgdmf",
        basis=Basis.DERIVED,
        settings={**_LFL, "as_published": False, "overstated": 2.0},
        statement="Replaced noise hides a user from a server that doubles the number of survivors.",
        source="section 6.2, Theorem 5, with Figure 3d, step s2",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/sqrt(2), even repaired",
        reason=(
            "Devices take the server's word for the number that their second noise depends on, "
            "and by section 1.1 they need not trust it. (The authors may answer that secure "
            "aggregation is an oracle there, section 6.1; the number is not part of it.)"
        ),
        scope=_SUM,
        ours=True,
        repaired={"overstated": 1.0},
    ),
    _entry(
        number="22c",
        repeats="22",
        target="lfl-sgdmf",
        basis=Basis.DERIVED,
        settings={**_LFL, "as_published": False, "colluding": 0.5},
        statement="Replaced noise hides a user if half of the users tell the server theirs.",
        source="section 6.2, Theorem 5",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z sqrt(share of honest users), even repaired",
        reason=(
            "Every colluding user takes its share of the noise away, and by section 1.1 a party "
            '"does not need to trust any other party". (The authors may answer that section 6.1 '
            'proposes "a new algorithm with the central DP guarantee".) Noise that is shared '
            "cannot keep the first promise at the price of Theorem 5: it has to be larger by the "
            "share that may collude."
        ),
        scope=_SUM,
        ours=True,
        repaired={"colluding": 0.0},
    ),
    _entry(
        number="22d",
        target="lfl-sgdmf",
        statement="Figure 3d bounds what one device sends by 2 R^(3/2).",
        source="Figure 3d, step s2",
        claimed="2 R^(3/2)",
        provable="unbounded without a projection of V; LFL-SGDMF here projects",
        reason="The server's step on V is not followed by the projection that the bound rests on.",
        computed=numbers.unprojected,
    ),
    _entry(
        number="22e",
        target="lfl-sgdmf",
        basis=Basis.DERIVED,
        statement="Round 2's messages may be sent in the clear, one by one.",
        source="section 6.1, round 2, and Figure 3d, step c2",
        claimed="no worse than their sum",
        provable="the same: 1/(2 - omega) of sigma^2 either way",
        reason=(
            "All first noises have one variance and so have all second ones, so the sum has all "
            "that they tell of the first sum. It is the sum that tells too much (22)."
        ),
        computed=numbers.in_the_clear,
    ),
    _entry(
        number="22f",
        repeats="22",
        target="lfl-sgdmf",
        settings={**_LFL, "dropout": 0.2},
        statement="Replaced noise hides a user if a fifth of the devices drop out twice.",
        source="section 6.2, Theorem 5 and the paragraph after it",
        claimed="T Gaussians of multiplier z",
        provable="z sqrt(a (b/(1 - omega + a) + (1 - b)/(1 - omega))), shares a and b surviving",
        reason=(
            "The noise of the last sum is enough, as the paragraph says; that of all messages is "
            "not, whoever drops out."
        ),
        scope=_SUM,
        ours=True,
        computed=numbers.dropped_out,
        repaired={"as_published": False},
    ),
    _entry(
        number="22g",
        target="gd-dr",
        statement="GD-DR is compared at the epsilon that a shuffle makes of its local one.",
        source="section 6.3",
        claimed="the amplified epsilon",
        provable="the local epsilon: nobody shuffles",
        reason=(
            "In the local setting devices send to the server, which knows who sent what; the "
            "amplified epsilon is that of another system. (The comparison favours GD-DR.)"
        ),
        computed=numbers.amplified,
    ),
    _entry(
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
        source="sections 4.1.2 and 4.2, Proposition 2 and Theorem 3",
        claimed="T T' Gaussians, sampled at eta",
        provable="K Gaussians, K ~ Binomial(T T', eta), known to the adversary",
        reason=(
            "The user's other ratings show when the row is drawn. The proposition is for any "
            "learning rate, so also for one at which V hardly moves."
        ),
        scope=_RATING,
        ours=True,
        computed_at="at a learning rate of 1e-15, one local step a round (T' = 1) and one party; "
        "at the paper's settings the claim is unproved",
        computed=numbers.rows,
        repaired={"as_published": False},
        demonstration="hfl-drawn-rows",
    ),
    _entry(
        number="23b",
        target="vfl-sgdmf",
        settings={**_EVERY_STEP, "parties": 1, "tuning": 0, "unit": "user", "as_published": False},
        statement="Sampling rows amplifies the privacy of a user, if each is drawn by itself.",
        source="sections 4.1.2 and 4.2, Proposition 2 and Theorem 4",
        claimed="T T' Gaussians, sampled at eta",
        provable="the same",
        reason="Nothing else shows whether a user was drawn: all of its ratings are the unit.",
        scope=_USER,
        ours=True,
    ),
    _entry(
        number="24",
        target="hfl-sgdmf",
        settings=_EVERY_STEP,
        statement="At pre-trained user embeddings one rating moves a step's sum by 2 R^(3/2).",
        source="section 5.2 and Figure 3c, step c1",
        claimed="T T' sampled Gaussians, for a sum moved by 2 R^(3/2)",
        provable="the same noise, for up to 2 R^(3/2) sqrt(2c - 1) by a user of c ratings",
        reason=(
            "The embedding is a noiseless function of all ratings of the user: one more turns it, "
            "and with it the gradients of all the others. For one of 100 ratings epsilon is at "
            "least 122.2 (at a learning rate of 0.03), for one of 10 at least 4.174 (at 0.001)."
        ),
        scope=_RATING,
        ours=True,
        computed_at="for one of a user's 841 ratings, half of all items, and the worst first V",
        place="counted as in Proposition 2",
        computed=numbers.embeddings,
        repaired={"as_published": False},
        demonstration="hfl-fitted-embeddings",
    ),
    _entry(
        number="24b",
        target="lfl-sgdmf",
        basis=Basis.DERIVED,
        settings={"as_published": False},
        statement="At pre-trained user embeddings one rating moves an upload by 2 R^(3/2).",
        source="section 6.2, Theorem 5, and Figure 3d, step c1",
        claimed="T Gaussians of multiplier z",
        provable="T Gaussians of multiplier z/1.618, for one gradient is replaced by another",
        reason=(
            "A rating turns the fitted embedding, and another gradient may be drawn: sqrt(3/2) "
            "times as far, along one direction, in the worst case. Theorem 5 names no unit: so if "
            "it is read for a rating; read for a user (22) this is no objection."
        ),
        scope=scope_of(Unit.RATING, Vantage.AGGREGATE),
        ours=True,
        computed=numbers.drawn,
        demonstration="lfl-turned-gradient",
    ),
    _entry(
        number="25",
        target="vfl-sgdmf",
        settings={"unit": "user"},
        statement="Parties of eps_k at one delta hide a user with sqrt(sum eps_k^2) at that delta.",
        source="section 4.2, Theorem 4",
        claimed="sqrt(sum eps_k^2)",
        provable="composition of all steps of all parties; sum eps_k in general",
        reason=(
            "The sum of squares is the leading order only, and rows are drawn in a fixed number; "
            "both are saved by a sensitivity that the paper takes too large (21b)."
        ),
        scope=_USER,
        ours=True,
        computed=numbers.root_sum,
        repaired={"as_published": False},
    ),
    _entry(
        number="26",
        target="hfl-sgdmf",
        kind=StatementKind.TYPO,
        statement="As printed, noise for T' sampled steps hides a user in T rounds.",
        source="section 5.2, Proposition 3",
        claimed="T' = 10 Gaussians, sampled at eta",
        provable="T T' = 1,000 Gaussians, sampled at eta",
        reason=(
            "A misprint: T' steps are taken in each of T rounds, and section 5.3 counts T T', as "
            "Proposition 2 does (26b)."
        ),
        computed=numbers.counted,
        demonstration="hfl-counted-steps",
    ),
    _entry(
        number="26b",
        target="hfl-sgdmf",
        settings={"unit": "user", "as_published": False},
        statement="With all T T' steps counted, a user is hidden as the accountant has it.",
        source="sections 5.2 and 5.3",
        claimed="T T' Gaussians, sampled at eta",
        provable="the same, if each user is drawn by itself",
        reason="Proposition 3 repaired, by the count of section 5.3.",
        scope=_USER,
        ours=True,
        place="counted as in Proposition 2",
    ),
    _entry(
        number="26c",
        target="hfl-sgdmf",
        statement="z^2 = c1 eta^2 T T' ln(1/delta)/eps^2 with a constant c1.",
        source="Propositions 2 and 3, Theorem 5",
        claimed="c1, the same at every budget",
        provable="no constant",
        reason=(
            "The order of magnitude only, and of small epsilon. No c1 is printed; over budgets up "
            "to a largest one some c1 is large enough, and then too large for all the others."
        ),
        computed=numbers.constants,
    ),
    _entry(
        number="26d",
        target="vfl-sgdmf",
        statement="The package that is cited calculates the exact privacy loss.",
        source="section 2.2, after Theorem 1, reference 44",
        claimed="exact",
        provable="an upper bound: 11% above at eps = 1, and Theorem 1 is 36% above",
        reason=(
            "TensorFlow Privacy of December 2021 bounds Renyi divergences and converts them, "
            "tighter than Theorem 1 does. Entries on sampled steps are judged by the package, as "
            "that is what the authors ran; what Theorem 1 gives stands beside it."
        ),
        computed=numbers.exactness,
    ),
    _entry(
        number="27",
        target="vfl-sgdmf",
        settings={"unit": "user"},
        statement="(eps, delta) for presence is (2 eps, 2 delta) for a user who is replaced.",
        source="section 2.2.1",
        claimed="(2 eps, 2 delta)",
        provable="(2 eps, (1 + e^eps) delta)",
        reason=(
            "Removal and addition compose to e^eps delta + delta, and this is attained. What this "
            "training gives away is less: its sensitivity is taken too large (21b)."
        ),
        scope=scope_of(Unit.USER, adjacency=Adjacency.REPLACE),
        ours=True,
        computed=numbers.both_ways,
    ),
    _entry(
        number="27b",
        target="vfl-sgdmf",
        statement="It is enough that the inequality of Definition 1 holds for every output.",
        source="section 2.2, Definition 1",
        claimed="delta for each output",
        provable="delta for every set of outputs",
        reason="Where every output is rare, each may have its delta, and all of them have none.",
        computed=numbers.pointwise,
    ),
    _entry(
        number="27c",
        target="hfl-sgdmf",
        settings={"unit": "user"},
        statement="The moments accountant holds for n' rows drawn without replacement.",
        source="sections 2.2, 4.1.2 and 5.2",
        claimed="Poisson-sampled Gaussians",
        provable="Poisson-sampled Gaussians, up to 1.618 times as far apart",
        reason=(
            "A user who comes takes another one's place in a batch of fixed size, and of two users "
            "one may move V up as far as the other moves it down: the golden ratio, in all. For "
            "theta = 10 this is saved by a sensitivity that the paper takes sqrt(theta) times too "
            "large (21b)."
        ),
        scope=_USER,
        ours=True,
        place="counted as in Proposition 2",
        repaired={"as_published": False},
    ),
    _entry(
        number="27d",
        target="hfl-sgdmf",
        statement="Gradients divided by n' m' tau are protected by noise for the sum.",
        source="sections 3.1 and 4.1.3",
        claimed="the same noise in all data sets, at the scale of the gradient",
        provable="noise on the sum, divided by a public number",
        reason=(
            "tau, |Omega_k| and n_k are data themselves and unprotected; and noise that is added "
            "after the division is hundreds of times too large."
        ),
        computed=numbers.divisor,
        demonstration="hfl-divisor",
    ),
    _entry(
        number="27e",
        target="hfl-sgdmf",
        statement="The epsilon of the training with the least training loss is that of one alone.",
        source="section 4.3 (hyper-parameters)",
        claimed="one training",
        provable="all trainings that were tried",
        reason=(
            "The loss of every trial is computed from the ratings, and nothing is charged. The "
            "paper says that a part of the budget can be set aside for this; its results do not."
        ),
        computed=numbers.tuning,
    ),
    _entry(
        number="28",
        target="vfl-sgdmf",
        settings={"as_published": False},
        statement="Of a rating, which is with one party, all parties give away no more than one.",
        source="section 4.2, Theorem 3 and Proposition 1",
        claimed="max over parties of eps_k",
        provable="the same, for right eps_k",
        reason="Parallel composition: the parties' data are disjoint, whatever the rating's value.",
        scope=_RATING,
        ours=True,
    ),
    _entry(
        number="28b",
        target="vfl-sgdmf",
        statement="The projection after a noisy step costs nothing, and is to the nearest point.",
        source="section 4.1.1 and equation 7",
        claimed="0",
        provable="0",
        reason="Post-processing of what is noisy already.",
        computed=numbers.projection,
    ),
    _entry(
        number="28c",
        target="vfl-sgdmf",
        statement="The last kappa steps, on items alone, have sensitivity 2 R^(3/2).",
        source="sections 4.1.4 and 4.2",
        claimed="2 R^(3/2)",
        provable="2 R^(3/2)",
        reason="User embeddings are fixed then and known; right, and attained.",
        computed=numbers.last_steps,
    ),
)
