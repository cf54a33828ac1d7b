"""FedRec and APM (Zhang, Yuan, Yin: comprehensive privacy analysis): headings 17 to 20."""

from __future__ import annotations

from functools import partial

from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.catalogue.entry import Entry
from fedrec_auditor.targets.catalogue.paper import Paper, ThreatModel
from fedrec_auditor.targets.catalogue.parts import fedrec_numbers as numbers
from fedrec_auditor.targets.systems.fedrec.parts.composition import PAPER

_PAPER = Paper(
    title=PAPER,
    threat=ThreatModel(
        place="section 3.3 and Definition 2.1",
        adversary="the server, honest but curious: it sees every user's upload of every round and "
        "knows the attributes of some users who tell it",
        trusted="devices, and the server in what it sends and computes",
    ),
    symbols={
        "eps_i": "epsilon of one entry of component i",
        "lambda": "noise factor: scale of the Laplace noise",
        "delta": "clipping bound of an entry (no probability)",
        "E": "interval of epsilons that is searched",
        "sigma": "standard deviation of the noise",
    },
)
_entry = partial(Entry, paper=_PAPER)
_ENTRY = any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
_UPLOAD = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
_TRAINING = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
_ATTRIBUTE = any_pair(Unit.ATTRIBUTE, Vantage.SERVER, Horizon.ROUND)
_INTERACTION = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.ROUND)


def _fixed(number: str, target: str, factor: float, epsilon: float) -> Entry:
    return _entry(
        number=number,
        target=target,
        repeats="" if number == "17d" else "17d",
        statement=f"Noise factor {factor} on every parameter keeps each {epsilon:g}-LDP.",
        source="section 5.7",
        claimed=f"{epsilon:g} an entry",
        provable=f"{epsilon:g} an entry, times the number of entries for an upload",
        reason="Right for one entry of one round, and attained; of the upload it says nothing.",
        scope=_ENTRY,
    )


def _objective(number: str, target: str, statement: str, reason: str = "") -> Entry:
    name = target.upper()
    return _entry(
        number=number,
        target=target,
        statement=f"{name}: {statement}",
        source=f"section 5.3 ({name})",
        claimed="no number",
        provable="infinite where untouched rows stay as they were, as here",
        reason=(
            "Our reading, as neither law nor budget is printed: rows that were not trained on come "
            f"back as they were broadcast, which of an item that is held never happens{reason}."
        ),
        scope=_INTERACTION,
        ours=True,
    )


ENTRIES = (
    _entry(
        number="17",
        target="fedrec-apm",
        statement="Every parameter, clipped to [-0.5, 0.5], is eps_i-LDP at noise 1/eps_i.",
        source="section 4, equation 12 and Algorithm 2",
        claimed="eps_i of the entry's component",
        provable="eps_i of the entry's component",
        reason="The range of an entry is 2 delta = 1, if the clipping is elementwise: exact.",
        scope=_ENTRY,
    ),
    _entry(
        number="17b",
        target="fedrec-apm",
        basis=Basis.DERIVED,
        statement="The epsilon of one parameter, taken for that of an upload (Definition 2.1).",
        source="Definition 2.1 with section 4, Algorithm 2",
        claimed="an upload without leakage, no number; at most 60 for one parameter",
        provable="sum of eps_i over all entries",
        reason=(
            "Definition 2.1 is stated of all parameters, and section 4 has them sent "
            '"without privacy leakage". Every entry has a noise and an epsilon of its own, and one '
            "user sends all of them; the paper states epsilons for single parameters and never "
            "adds them up."
        ),
        scope=_UPLOAD,
    ),
    _entry(
        number="17c",
        target="fedrec-apm",
        basis=Basis.DERIVED,
        statement="The protection of one upload lasts for the whole training.",
        source="section 4, Algorithm 2",
        claimed="max eps_i = 60",
        provable="rounds x sum of eps_i over all entries",
        reason="Noise is fresh in every round, and the data behind it are the same.",
        scope=_TRAINING,
    ),
    _fixed("17d", "fixrec-max", 0.033, 30.0),
    _fixed("17e", "fixrec-min", 0.017, 60.0),
    _entry(
        number="17f",
        target="fedrec-apm",
        kind=StatementKind.TYPO,
        statement="lambda is the largest difference of two noisy entries over epsilon.",
        source="section 4, below equation 12, against Algorithm 2",
        claimed="max |M(x) - M(x')| / eps_i",
        provable="max |clip(x) - clip(x')| / eps_i = 2 delta/eps_i",
        reason="M adds noise, of which no difference is the largest; Algorithm 2 is right.",
        computed=numbers.numerator,
    ),
    _entry(
        number="18",
        target="fedrec-apm",
        basis=Basis.DERIVED,
        statement="Noise after each of several local epochs spends an entry's epsilon once.",
        source="Algorithm 2, lines of the epoch loop",
        claimed="eps_i",
        provable="eps_i, not epochs x eps_i",
        reason=(
            "Models between epochs stay on the device, so a noise before the last adds nothing to "
            "what is spent; nor does it save any, for the next epoch trains on the same data again "
            "and may take the entry anywhere: eps_i, attained."
        ),
        computed=numbers.epochs,
    ),
    _entry(
        number="18b",
        target="fedrec-apm",
        kind=StatementKind.TYPO,
        statement="The server's next model is the sum of the users' models.",
        source="section 3.2, equation 9, against Algorithm 1",
        claimed="sum",
        provable="mean",
        reason="Algorithm 1 divides by the number of users, as does FedAvg, which is cited.",
        computed=numbers.aggregated,
    ),
    _entry(
        number="19",
        target="fedrec-apm",
        kind=StatementKind.TYPO,
        statement="Section 5.7 gives each component the epsilon of its resistance (equation 11).",
        source="equation 11, Figure 4 and section 5.7",
        claimed="30, 60, 40, 50 for user, item, MLP layers 1 and 2",
        provable="30, 40, 50, 60 by equation 11",
        reason="The two assign different budgets to three of four components.",
        computed=numbers.assignments,
    ),
    _entry(
        number="19b",
        target="fedrec-apm",
        kind=StatementKind.TYPO,
        statement="Epsilon in E = [40, 60] means a noise factor in [0.017, 0.033].",
        source="section 5.7",
        claimed="0.033 at epsilon 40",
        provable="0.025 at epsilon 40; 0.033 is epsilon 30",
        reason=(
            "The noise factor, which the text also calls the privacy budget though it falls as "
            "epsilon rises, is 1/epsilon: E should begin at 30."
        ),
        computed=numbers.interval,
    ),
    _entry(
        number="19c",
        target="fedrec-apm",
        kind=StatementKind.TYPO,
        statement="Ages fall into three groups, and the data have the sizes printed.",
        source="section 5.1 and Table I",
        claimed="under 45, over 35, 35 to 45; 10,000 ratings, 6,039 users, 3,705 items",
        provable="under 35, 35 to 45, over 45; 100,000, 6,040 and 3,706",
        reason="The printed groups overlap: a user of 40 is in all three.",
        computed=numbers.features,
    ),
    _entry(
        number="20",
        target="fedrec-apm",
        statement="Randomized parameters keep attributes of a user from being inferred.",
        source="section 4, end, and section 5.5",
        claimed="no number for an attribute; at most 60 for one parameter",
        provable="none from an entry's epsilon",
        reason=(
            "An epsilon of 30 for one parameter hides next to nothing of it, and an attribute "
            "moves many; F1 scores are lower bounds on what leaks."
        ),
        scope=_ATTRIBUTE,
    ),
    _entry(
        number="20b",
        target="fedrec-gn",
        statement="Gaussian noise masks uploads; sigma, clipping, epsilon and delta are unprinted.",
        source="section 5.3 (FedRec-GN)",
        claimed="no number",
        provable="none without sigma and clipping",
        reason="Unverifiable as printed: there is nothing to refute, and nothing was promised.",
        scope=_UPLOAD,
        delta=0.0,
    ),
    _entry(
        number="20f",
        target="fednews",
        kind=StatementKind.UTILITY,
        basis=Basis.DERIVED,
        statement="APM protects better than FedNews' Laplace noise.",
        source="section 5.5 and Table II; section 5.3 prints no budget of FedNews",
        claimed="F1 0.429 against 0.446",
        provable="depends on a budget that is not printed",
        reason=(
            "At the least epsilon of E FedNews promises more than APM, at the largest less; which "
            "was run is not said, and F1 of one attack compares no guarantees."
        ),
        computed=numbers.compared_budgets,
    ),
    _entry(
        number="20g",
        target="fedrec",
        statement="Deeper models give a stronger privacy guarantee, and later layers leak less.",
        source="section 5.5, with section 3.3 and Figure 4",
        claimed="a guarantee, stronger than a shallow model's",
        provable="none for either",
        reason=(
            "That one attack reads less from more layers is an observation; without noise nothing "
            "is guaranteed, and a stronger attack may invert what layers abstract."
        ),
        computed=numbers.depth,
    ),
    _objective(
        "20c",
        "f-gerai",
        "perturbing information protects the user's attributes.",
        "; F-GERAI speaks of attributes, not of interactions",
    ),
    _objective("20d", "f-gerai-nl", "perturbing the objective gives differential privacy."),
    _objective("20e", "f-dpmf", "perturbing the objective keeps item updates private."),
)
