"""The words of attacks and utility: a figure with its interval, and what an attacker got."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fedrec_auditor.reports.rows import AttackRow, FurtherFigure, UsersRow, UtilityRow
from fedrec_auditor.reports.say import brief, percent

BROKEN = "Somebody breaks the protocol:"
"""How the note of an attack begins to say that it sees what the protocol hides."""
GOT = {
    "accuracy": "which of two inputs was sent is guessed {share} of the time",
    "entries proved": "{share} of the entries of a history are known for certain",
    "interaction F1": "a user's items are listed with F1 {value}",
    "users reconstructed exactly": "{share} of users' histories are read without a mistake",
    "ratings exact": "{share} of a user's ratings are read exactly",
    "user vector cosine": "a user's taste vector is found with cosine {value}",
    "linkage top-1": "the sender of a message is named right {share} of the time",
    "linkage MRR": "the sender of a message is ranked with mean reciprocal rank {value}",
    "candidates ruled out": "{share} of the candidates for a message's sender are ruled out",
}
"""What an attacker got, by the metric; ``{share}`` is the value in percent."""
_TOLD_APART = {
    "membership inference": (
        "of an item that a user met and one that the user did not, the right one is picked {share} "
        "of the time",
        "{share} of the items that users met are found",
    ),
    "user-level membership inference": (
        "of a user who took part and one who did not, the right one is picked {share} of the time",
        "{share} of the users who took part are found",
    ),
}
"""Of a family the words for AUC and, at a rate of false alarms, for the true positive rate."""

_OBJECTS = {
    "reconstruction": "histories",
    "membership inference": "histories",
    "user-level membership inference": "who took part",
    "linkage": "who sent a message",
}
"""What attacks of a family are after."""


def object_words(row: AttackRow) -> str:
    """The object of a figure, in a word or few."""
    attribute = re.match(r"(\w+) (macro F1\b|read for certain)", row.metric)
    if attribute is not None:
        return attribute[1].replace("_", " ")
    return _OBJECTS.get(row.family, row.metric)


def beyond_protocol(row: AttackRow) -> bool:
    """Whether it sees what the protocol hides from everybody."""
    return BROKEN in row.note


def beside_words(row: UtilityRow) -> str:
    """The baseline beside a figure, with the interval of the difference."""
    if row.baseline is None:
        return "none"
    difference = ends_words(row.baseline.difference)
    return f"{row.baseline.name} {brief(row.baseline.value)}, difference {difference}"


def trainings_words(rows: Iterable[AttackRow | UtilityRow]) -> str:
    """The trainings that figures are of: "of this training", or "over 3 trainings"."""
    counts = sorted({row.trainings for row in rows})
    if counts[-1] == 1:
        return "of this training"
    least = f"{counts[0]} to " if len(counts) > 1 else ""
    return f"over {least}{counts[-1]} trainings"


def ends_words(row: AttackRow | UtilityRow | FurtherFigure) -> str:
    """The interval of a figure."""
    return f"[{brief(row.ci_low)}, {brief(row.ci_high)}]"


def got_words(row: AttackRow) -> str:
    """The gain of an attacker in plain words, and the guess without the uploads."""
    said = gain_words(row, row.value)
    if row.baseline is None:
        return said
    short = _figure(row, row.baseline)
    return f"{said}, {short} without the uploads"


def gain_words(row: AttackRow, value: float) -> str:
    """The gain of an attacker who reaches ``value`` of a row's metric, in plain words."""
    told = GOT.get(row.metric)
    area, found = _TOLD_APART.get(row.family, (None, None))
    attribute = re.match(r"(\w+) (macro F1\b|read for certain)", row.metric)
    alarms = re.match(r"TPR at FPR ([\d.]+)$", row.metric)
    share, plain = _share(value), brief(value)
    if told is not None:
        return told.format(share=share, value=plain)
    if area is not None and row.metric == "AUC":
        return area.format(share=share)
    if found is not None and alarms is not None:
        return f"{found.format(share=share)} with {_share(float(alarms[1]))} false alarms"
    if attribute is not None and attribute[2] == "read for certain":
        known = attribute[1].replace("_", " ")
        how = "rightly" if row.baseline else "for certain"  # which no wrong reading is
        return f"the {known} of {round(value * row.n):,} of {row.n:,} senders is read {how}"
    if attribute is not None:
        return f"a user's {attribute[1].replace('_', ' ')} is guessed with macro F1 {plain}"
    return f"{row.metric} is {plain}"


def _figure(row: AttackRow, value: float) -> str:
    """A figure of a row as its words have it: in percent, or as it is."""
    in_percent = "{share}" in GOT.get(row.metric, "") or (
        row.family in _TOLD_APART and row.metric.startswith(("AUC", "TPR"))
    )
    return _share(value) if in_percent else brief(value)


def _share(value: float) -> str:
    return percent(value) if 0.0 <= value <= 1.0 else brief(value)


def risk_words(row: AttackRow) -> str:
    """How differently users are at risk, in quantiles over them and by groups; nobody is named."""
    assert row.users is not None
    users = row.users
    found = sorted((float(level.rstrip("%")), one) for level, one in users.quantiles.items())
    if not found:
        return ""
    (least, low), (most, high) = found[0], found[-1]
    half = next((one for level, one in found if level == 50.0), low)
    if low.value == high.value:
        return f"all alike, {users.success} {brief(low.value)}. ({row.attack}, {row.vantage})"
    said = (
        f"{users.success}: {brief(half.value)} or more for half of the users, {brief(high.value)} "
        f"{ends_words(high)} or more for the most exposed {brief(100 - most)}%, "
        f"{brief(low.value)} or less for the least exposed {brief(least)}%"
    )
    if users.sure is not None:
        said += f"; of {_share(users.sure.value)} of the users it is 0.9 or more"
    chance = " Each user is judged by few items: part of the spread is chance."
    few = chance if row.family in _TOLD_APART else ""
    return f"{said}.{few}{_unequal(users)} ({row.attack}, {row.vantage})"


def _unequal(users: UsersRow) -> str:
    """The groups that are hit hardest and least, where their intervals are apart."""
    named = [
        (one, f"{alike}: {name} {brief(one.value)} {ends_words(one)}")
        for alike, name, one in users.means
    ]
    if not named:
        return ""
    least, most = (f(named, key=lambda pair: pair[0].value) for f in (min, max))
    if least[0].ci_high >= most[0].ci_low:
        return ""
    return f" Hit hardest: {most[1]}; least: {least[1]}."


def baseline_words(row: AttackRow) -> str:
    """All baselines of an attack by name, or the one it has."""
    named = "; ".join(f"{name} {brief(value)}" for name, value in sorted(row.baselines.items()))
    return named or ("none" if row.baseline is None else brief(row.baseline))


def further_words(row: AttackRow) -> str:
    """The figure from the true interactions, and further figures with their intervals."""
    said = (
        []
        if row.from_interactions is None
        else [f"from the true interactions {brief(row.from_interactions)}"]
    )
    said += [
        f"{name} {brief(one.value)} {ends_words(one)}" for name, one in sorted(row.further.items())
    ]
    return "; ".join(said)
