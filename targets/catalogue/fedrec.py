"""FedRec and APM (Zhang, Yuan, Yin: comprehensive privacy analysis): headings 17 to 20."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.catalogue.entry import Computed, Entry
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.systems.fedrec.parts.composition import PAPER

_ENTRY = any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
_UPLOAD = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
_TRAINING = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
_ATTRIBUTE = any_pair(Unit.ATTRIBUTE, Vantage.SERVER, Horizon.ROUND)
_INTERACTION = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.ROUND)
_WORDS = {
    "user": "the user component",
    "item": "the item component",
    "mlp1": "the first layer of the MLP",
    "mlp2": "the second layer of the MLP",
}


def _epochs() -> Iterator[Computed]:
    """Two epochs, each ended by clipping and noise, with the worst training in between.

    An entry at either end is sent to the first noise; the second epoch may push what came out, by
    its sign, to either end again; the second noise is added, and sent.
    """
    protection = AdaptiveLaplace()
    noise, ends = protection.noise("user"), protection.clip * np.array([1.0, -1.0])
    high = noise.beyond(0.0, ends)
    law = protection.coordinate("user").log_prob(ends[:, None], ends)  # outputs by inputs
    sent = np.exp(law) @ np.array([high, 1.0 - high])
    ratio = float(np.abs(np.log(sent[:, 0] / sent[:, 1])).max())
    yield Computed(
        what="epsilon of an entry of the user component after two epochs with noise in each",
        claimed=protection.budget("user"),
        right=ratio,
        below=True,
        how="the exact law of what is sent: the first epoch's noise is never seen",
    )


def _assignments() -> Iterator[Computed]:
    """Section 5.7 beside equation 11 at its least and largest epsilon."""
    used = AdaptiveLaplace()
    budgets = {group: used.budget(group) for group in _WORDS}
    ruled = AdaptiveLaplace.by_resistance(least=min(budgets.values()), most=max(budgets.values()))
    for group, budget in budgets.items():
        yield Computed(
            what=f"epsilon of {_WORDS[group]}, by section 5.7",
            claimed=budget,
            right=ruled.budget(group),
            how="equation 11: equal steps from the least resistance, which is the user component's",
        )


def _interval() -> Iterator[Computed]:
    """The ends of E = [40, 60] as noise factors, and 0.033 as an epsilon."""
    for end, printed in ((60.0, 0.017), (40.0, 0.033)):
        yield Computed(
            what=f"noise factor at epsilon = {end}, an end of E",
            claimed=printed,
            right=AdaptiveLaplace(user=end).noise("user").scale,
            tolerance=5e-4,
            how="2 delta/epsilon at delta = 0.5",
        )


def _fixed(number: str, target: str, factor: float, epsilon: float) -> Entry:
    return Entry(
        number=number,
        target=target,
        statement=f"Noise factor {factor} on every parameter keeps each {epsilon:g}-LDP.",
        source=f"{PAPER}, section 5.7",
        claimed=f"{epsilon:g} an entry",
        provable=f"{epsilon:g} an entry, times the number of entries for an upload",
        reason="Right for one entry of one round, and attained; of the upload it says nothing.",
        scope=_ENTRY,
    )


def _objective(number: str, target: str, statement: str, reason: str = "") -> Entry:
    name = target.upper()
    return Entry(
        number=number,
        target=target,
        statement=f"{name}: {statement}",
        source=f"{PAPER}, section 5.3 ({name})",
        claimed="no number; 10 here",
        provable="infinite where untouched rows stay as they were, as here",
        reason=(
            "Our reading, as neither law nor budget is printed: rows that were not trained on come "
            f"back as they were broadcast, which of an item that is held never happens{reason}."
        ),
        scope=_INTERACTION,
    )


ENTRIES = (
    Entry(
        number="17",
        target="fedrec-apm",
        statement="Every parameter, clipped to [-0.5, 0.5], is eps_i-LDP at noise 1/eps_i.",
        source=f"{PAPER}, section 4, equation 12 and Algorithm 2",
        claimed="eps_i of the entry's component",
        provable="eps_i of the entry's component",
        reason="The range of an entry is 2 delta = 1, if the clipping is elementwise: exact.",
        scope=_ENTRY,
    ),
    Entry(
        number="17b",
        target="fedrec-apm",
        statement="The epsilon of one parameter, taken for that of an upload (Definition 2.1).",
        source=f"{PAPER}, Definition 2.1 with section 4, Algorithm 2",
        claimed="no number for an upload; at most 60 for one parameter",
        provable="sum of eps_i over all entries",
        reason=(
            "Every entry has a noise and an epsilon of its own, and one user sends all of them; "
            "the paper states epsilons for single parameters and never adds them up."
        ),
        scope=_UPLOAD,
    ),
    Entry(
        number="17c",
        target="fedrec-apm",
        statement="The same protection lasts for the training.",
        source=f"{PAPER}, section 4, Algorithm 2",
        claimed="max eps_i = 60",
        provable="rounds x sum of eps_i over all entries",
        reason="Noise is fresh in every round, and the data behind it are the same.",
        scope=_TRAINING,
    ),
    _fixed("17d", "fixrec-max", 0.033, 30.0),
    _fixed("17e", "fixrec-min", 0.017, 60.0),
    Entry(
        number="18",
        target="fedrec-apm",
        statement="Noise after each of several local epochs spends an entry's epsilon once.",
        source=f"{PAPER}, Algorithm 2, lines of the epoch loop",
        claimed="eps_i",
        provable="eps_i, not epochs x eps_i",
        reason="Models between epochs stay on the device: what is sent saw the last noise alone.",
        computed=_epochs,
    ),
    Entry(
        number="19",
        target="fedrec-apm",
        statement="Section 5.7 gives each component the epsilon of its resistance (equation 11).",
        source=f"{PAPER}, equation 11, Figure 4 and section 5.7",
        claimed="30, 60, 40, 50 for user, item, MLP layers 1 and 2",
        provable="30, 40, 50, 60 by equation 11",
        reason="The two assign different budgets to three of four components.",
        computed=_assignments,
    ),
    Entry(
        number="19b",
        target="fedrec-apm",
        statement="Epsilon in E = [40, 60] means a noise factor in [0.017, 0.033].",
        source=f"{PAPER}, section 5.7",
        claimed="0.033 at epsilon 40",
        provable="0.025 at epsilon 40; 0.033 is epsilon 30",
        reason=(
            "The noise factor, which the text also calls the privacy budget though it falls as "
            "epsilon rises, is 1/epsilon: E should begin at 30."
        ),
        computed=_interval,
    ),
    Entry(
        number="20",
        target="fedrec-apm",
        statement="Randomized parameters keep attributes of a user from being inferred.",
        source=f"{PAPER}, section 4, end, and section 5.5",
        claimed="no number for an attribute; at most 60 for one parameter",
        provable="none from an entry's epsilon",
        reason=(
            "An epsilon of 30 for one parameter hides next to nothing of it, and an attribute "
            "moves many; F1 scores are lower bounds on what leaks."
        ),
        scope=_ATTRIBUTE,
    ),
    Entry(
        number="20b",
        target="fedrec-gn",
        statement="Gaussian noise masks uploads; sigma, clipping, epsilon and delta are unprinted.",
        source=f"{PAPER}, section 5.3 (FedRec-GN)",
        claimed="no number",
        provable="none without sigma and clipping",
        reason="Unverifiable as printed: there is nothing to refute, and nothing was promised.",
        scope=_UPLOAD,
        delta=0.0,
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
