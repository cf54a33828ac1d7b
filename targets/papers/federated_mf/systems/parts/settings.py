"""What the settings of the paper's systems may be: one name, one meaning, in all of them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fedrec_auditor.targets import settings as rules

_RULES = {
    rules.whole: "factors rounds local_steps parties trim fitting rows sweeps",
    rules.whole_or_none: "tuning",
    rules.share: "rate",
    rules.proper_share: "delta density omega",
    rules.share_or_none: "dropout colluding",
    rules.scale: "bound",
    rules.positive: "learning_rate tuning_rate clip regularization overstated",
    rules.budget: "epsilon",
    rules.not_negative: "noise_multiplier",
    rules.boolean: "as_published train_both",
}
_CHOICES = {"unit": ("rating", "user"), "split": ("random", "category")}


def check(system: Any) -> None:
    """InputError unless all settings of ``system`` are what they may be."""
    names = {field.name for field in fields(system)}
    for rule, ruled in _RULES.items():
        rules.check_settings(system, **{name: rule for name in ruled.split() if name in names})
    for name in names & _CHOICES.keys():
        rules.check_choice(system, name, _CHOICES[name])
