"""DP-PrivRec (Wang, Yin, Chen, Yu, Zhou, Zhang: VLDB Journal 2021): headings 10 to 16."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.catalogue.entry import Entry
from fedrec_auditor.targets.catalogue.paper import Paper, ThreatModel
from fedrec_auditor.targets.catalogue.parts import privrec_numbers as numbers
from fedrec_auditor.targets.systems.privrec.parts.meta_learned import PAPER

_PAPER = Paper(
    title=PAPER,
    threat=ThreatModel(
        place="section 1 on malicious participants, and section 2.3",
        adversary="clients who take part, may be malicious, and see every model that is sent out",
        trusted="the server, which gets every clipped change in the clear, draws the clients in "
        "secret and adds the noise",
    ),
    symbols={
        "z": "noise multiplier: standard deviation of the noise over the sensitivity",
        "S": "clipping bound on the norm of a client's change",
        "b": "bit of a client: whether its change fits S",
        "M": "clients drawn in a round",
        "N": "users",
        "q": "M/N",
        "E1": "rounds of a training",
        "h": "share of the budget of a round that goes to b",
        "gamma": "quantile of the norms that S is to follow",
        "alpha3": "step size of the server",
        "delta": "chance with which the bound epsilon may fail",
        "z1": "noise scale of the average change",
        "z2": "noise scale of the share of unclipped changes",
    },
)
_entry = partial(Entry, paper=_PAPER)
_ALL_ROUNDS = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.REPLACE,
    vantage=Vantage.PEERS,
    horizon=Horizon.TRAINING,
)
_ONE_ROUND = replace(_ALL_ROUNDS, horizon=Horizon.ROUND)
_SERVER = replace(_ALL_ROUNDS, vantage=Vantage.SERVER)


ENTRIES = (
    _entry(
        number="10",
        target="dp-privrec",
        statement="The average change of M clients has sensitivity 2S/M.",
        source="section 2.3.2, Theorem 1",
        claimed="2S/M",
        provable="2S/M",
        reason=(
            "One change of norm at most S is replaced by another: right, and attained. Clipping "
            'does it, not the proximal term, which by section 1 "effectively caps the contribution '
            'of a single client" and bounds none.'
        ),
        computed=numbers.average,
    ),
    _entry(
        number="10b",
        target="dp-privrec",
        statement="The share of unclipped changes has sensitivity 2/M.",
        source="section 2.3.3, below equation 9",
        claimed="2/M",
        provable="1/M",
        reason="The bit is 0 or 1, never negative: twice the noise that it needs.",
        computed=numbers.share,
    ),
    _entry(
        number="10c",
        target="dp-privrec",
        statement="Both queries together have sensitivity S* = 2 sqrt(S^2 + 1)/M.",
        source="section 2.3.4, item 3",
        claimed="2 sqrt(S^2 + 1)/M",
        provable="sqrt(4 S^2 + 1)/M",
        reason=(
            "Valid, as 2/M is for the share. The noise is not z S* in every direction, as the text "
            "has it: it is dealt to the two by h, which makes the same multiplier."
        ),
        computed=numbers.joint_sensitivity,
    ),
    _entry(
        number="11",
        target="dp-privrec",
        kind=StatementKind.ESTIMATOR,
        statement="The bound S follows the gamma-quantile of the norms of changes.",
        source="section 2.3.3, equation 9, and Algorithm 2, lines 11, 22, 23",
        claimed="b = 1 if the change fits S, else 0",
        provable="b = 1 always; compute b before clipping",
        reason="Line 23 measures what line 22 has clipped: S falls in a line, through zero.",
        computed=numbers.adaptive,
    ),
    _entry(
        number="11b",
        target="dp-privrec",
        statement="That S changes during training does not affect the noise multiplier.",
        source="section 2.3.4, item 5",
        claimed="z at every S",
        provable="z at every S",
        reason="Noise and sensitivity both are multiples of S, which itself is made of noisy sums.",
        computed=numbers.adapted,
    ),
    _entry(
        number="12",
        target="dp-privrec",
        basis=Basis.DERIVED,
        settings={"server_rate": 4.0, "n_users": 30},
        statement="A round is a Gaussian mechanism of noise multiplier z, whatever alpha3.",
        source="section 2.3.4, against Algorithm 2, line 9",
        claimed="multiplier z",
        provable="multiplier z / (alpha3 sqrt(1-h)): violated if alpha3 > 1.83",
        reason=(
            "Line 9 multiplies the average by alpha3 and not its noise: violated once "
            "alpha3 sqrt(1-h) > 1, that is alpha3 > 1.83 at the paper's h = 0.7. It prints no "
            "alpha3. The step must multiply the noise, too."
        ),
        scope=_ONE_ROUND,
        ours=True,
        computed_at="at a server step alpha3 of 4, with all of 30 clients in the round",
        delta=1e-6,
        place="section 2.3.4",
        repaired={"as_published": False},
        demonstration="dp-privrec-step",
    ),
    _entry(
        number="13",
        target="dp-privrec",
        kind=StatementKind.TYPO,
        statement="Noise scales z1 = 1/(z sqrt(1-h)), z2 = 1/(z sqrt(h)) make a multiplier of z.",
        source="section 2.3.4, item 3, against Algorithm 2, lines 8 and 10",
        claimed="z",
        provable="1/z by the proof's scales; z by the algorithm's",
        reason="The proof divides by z where the algorithm multiplies: they agree at z = 1 only.",
        computed=numbers.multipliers,
    ),
    _entry(
        number="13b",
        target="dp-privrec",
        kind=StatementKind.TYPO,
        statement="z is the variance of the noise.",
        source="section 2.3.4, item 3, and section 4.4",
        claimed="variance",
        provable="standard deviation over sensitivity",
        reason="Algorithm 2 multiplies by z, not by its root; no difference at z = 1, as in 4.4.",
        computed=numbers.variance,
    ),
    _entry(
        number="14",
        target="dp-privrec",
        statement="Each round samples the clients by the ratio q, as a moments accountant assumes.",
        source="section 2.3.4, items 1 and 4, against Algorithm 2, line 4",
        claimed="Poisson sampling at rate M/N",
        provable="M of N without replacement, replace-one",
        reason=(
            "A fixed number is drawn, and one user replaces another; the Poisson figure is a "
            "lower bound on what that costs, not an upper one."
        ),
        computed=numbers.sampling,
    ),
    _entry(
        number="14b",
        target="dp-privrec",
        basis=Basis.DERIVED,
        statement="Of a user who is not drawn nothing can be inferred.",
        source="section 2.3.2, step 1",
        claimed="nothing, in a round without the user",
        provable="right of that round's changes; nearly all users are drawn in a training",
        reason=(
            "A round's new changes are independent of who sends none, but the model that they "
            "start from is not; and of 1,000 users 2 are never drawn. Nor is a client that is not "
            "drawn a stranger: it knows that the M were drawn of the N - 1 others, and c clients "
            "who collude that they were drawn of N - c."
        ),
        computed=numbers.ever_drawn,
    ),
    _entry(
        number="15",
        target="dp-privrec",
        settings={"n_users": 4800},
        statement="Tables 3 and 4 are the epsilons of E1 = 1,000 rounds of Algorithm 2.",
        source="section 4.4, Tables 3 and 4",
        claimed="36 epsilons, here that of q = 30/4800",
        provable="far less; `auditor account --tables` has all 36",
        reason=(
            "Every round is counted M times. So the printed figures are true at a step size "
            "alpha3 of 1, and loose; the text (N/M), the algorithm (E1) and the tables (E1 M) "
            "disagree on the number of steps. As printed, and at that step size, Algorithm 2 has "
            "even a joint multiplier of 1.83 where the tables have 1."
        ),
        scope=_ALL_ROUNDS,
        computed_at="as printed (b is always 1), at a server step alpha3 of 1",
        delta=1e-6,
        place="Tables 3 and 4",
        computed=numbers.tables,
    ),
    _entry(
        number="15b",
        target="dp-privrec",
        basis=Basis.DERIVED,
        settings={"n_users": 4800},
        statement="What Tables 3 and 4 have instead: E1 M sampled steps, by a general theorem.",
        source="section 4.4, Tables 3 and 4 (the counting is not stated)",
        claimed="36 epsilons",
        provable="the same 36, digit by digit",
        reason=(
            "Sampling without replacement with a Renyi curve of a/2, integer orders, the classic "
            "conversion, T = 1,000 M, and digits cut rather than rounded."
        ),
        computed=numbers.counted,
    ),
    _entry(
        number="15c",
        target="dp-privrec",
        statement="The mechanisms are applied N/M times.",
        source="section 2.3.4, after item 5, against Algorithm 2, line 3, and section 4.4",
        claimed="N/M = 160 rounds",
        provable="E1 = 1,000 rounds",
        reason=(
            "One pass over all users, where Algorithm 2 makes six (on Frappe twenty); Tables 3 and "
            "4 count neither."
        ),
        computed=numbers.number_of_rounds,
    ),
    _entry(
        number="15d",
        target="dp-privrec",
        kind=StatementKind.TYPO,
        statement="80% of the users are 4,800 on MovieLens and 760 on Frappe.",
        source="section 4.4, with section 3.2",
        claimed="4,800 and 760",
        provable="4,832 and 766",
        reason="Rounded down; more users make epsilon smaller, by less than 1%.",
        computed=numbers.training_users,
    ),
    _entry(
        number="15e",
        target="dp-privrec",
        statement="At delta 0 epsilon is infinite.",
        source="section 4.4, Tables 3 and 4, first column",
        claimed="infinite",
        provable="infinite",
        reason="Normal noise has no pure epsilon, however little is asked of it.",
        computed=numbers.without_delta,
    ),
    _entry(
        number="15f",
        target="dp-privrec",
        statement="Attackers cannot identify any user from the trained model.",
        source="abstract, with Table 4",
        claimed="not at all",
        provable="as far as epsilon allows: up to 50 is printed",
        reason=(
            "Differential privacy bounds what is learnt, and an epsilon of 50 bounds nothing; even "
            "what is proved for the same training allows a guess to be right 998 times of 1,000."
        ),
        computed=numbers.identified,
    ),
    _entry(
        number="16",
        target="dp-privrec",
        statement="The gradients that clients send to the server are perturbed.",
        source="section 1, introduction, against Algorithm 2, lines 8, 9 and 22",
        claimed="noise on what is sent; an epsilon of the model only",
        provable="no noise on it; infinite against the server",
        reason=(
            "The server adds all noise, after it has received every change as it is. Section 1 "
            "has the resulting model satisfy a budget; no epsilon is promised against the server."
        ),
        scope=_SERVER,
        ours=True,
        delta=1e-6,
        computed=numbers.sent,
    ),
    _entry(
        number="16b",
        target="privrec",
        statement="Features instead of identities keep preferences and attributes from inference.",
        source="section 2.1, with the first sentence of section 1, malicious participants",
        claimed="no row of a table belongs to a user",
        provable="the rows that move are the user's features",
        reason=(
            "Without a row of its own a user is not named, but a change of the tables of features "
            "is zero on all rows but the user's: whoever gets an upload reads gender, age and "
            "occupation in it."
        ),
        computed=numbers.named,
    ),
)
