"""The least noise that keeps a condition, of a system whose leak is known."""

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.sweep.noise_search import STEPS, STRONGEST, WEAKEST, Condition, search
from fedrec_auditor.reports.record.frontier import BEYOND, SweepContents, SweepRow, VariantRow

STEP = 2.0 ** (12 / 2**STEPS)
"""How far apart the last two factors of a search are."""


def rows(gains, view="server", kind="gain", metric="interaction-membership: AUC"):
    return [
        SweepRow(
            variant=0,
            seed=seed,
            kind=kind,
            metric=metric,
            view=view,
            value=gain,
            ci_low=gain - 0.01,
            ci_high=gain + 0.01,
        )
        for seed, gain in enumerate(gains)
    ]


def swept(found, errors=()) -> SweepContents:
    return SweepContents(
        plan={},
        axes={},
        seeds=(),
        data={},
        versions={},
        method="",
        variants=(VariantRow(target="a", settings={"noise": 1.0}, swept={}),),
        rows=tuple(found),
        overall=(),
        relative=(),
        errors=errors,
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("attacks <= guessing + .2", True),
        ("attacks <= guessing + .15", None),
        ("attacks <= guessing + .05", False),
        ("attacks <= guessing", False),
        ("attacks(interaction-membership) <= guessing+0.2", True),
        ("epsilon(user, training) <= 4", True),
        ("epsilon(user) <= 3.9", False),
        ("utility >= .8 unprotected", True),
        ("utility(hr@10) >= .87 unprotected", None),
        ("utility >= .9 unprotected", False),
    ],
)
def test_a_condition_is_held_against_what_speaks_of_it(text, kept):
    made = rows([0.10, 0.11, 0.12]) + rows([0.9] * 3, f"server, {BEYOND}")
    made += rows([4.0] * 3, "user / any pair / server / training", "proved", "epsilon")
    made += rows([0.88, 0.87, 0.89], "split", "utility", "HR@10")
    made += rows([99.0] * 3, "item / any pair / server / training", "proved", "epsilon")
    assert Condition.of_text(text).holds(made, 3, 0.95) is kept


def test_one_training_cannot_keep_a_condition():
    assert Condition.of_text("attacks <= guessing + .5").holds(rows([0.0]), 1, 0.95) is None


@pytest.mark.parametrize(
    "text",
    ["", "attacks", "attacks <= .05", "epsilon <= guessing + 1", "attacks <= guessing + -1",
     "epsilon <= nan", "epsilon < 1", "epsilon <= 1e999", "utility >= 1",
     "utility <= 1 unprotected"],
)  # fmt: skip
def test_a_text_that_is_no_condition_is_refused(text):
    with pytest.raises(InputError, match="Expected a condition"):
        Condition.of_text(text)


def test_what_nothing_speaks_of_is_refused():
    with pytest.raises(InputError, match="Expected results for the condition"):
        Condition.of_text("attacks(linkage) <= guessing").holds(rows([0.0]), 1, 0.95)


@pytest.mark.parametrize("least", [0.07, 1.0, 9.0, 200.0])
def test_the_least_noise_is_found_and_the_next_weaker_does_not_keep_it(least):
    """A gain of .05 at this noise, and less in proportion to more of it."""

    def trained(factor, count):
        rng = np.random.default_rng([int(1000 * factor), count])
        return swept(rows(0.05 * least / factor + 1e-4 * rng.normal(size=count)))

    answer, tried = search("a", Condition.of_text("attacks <= guessing + .06"), trained, 4, 0.95)
    bound = 0.05 * least / 0.06
    assert answer.factor is not None
    weaker = [factor for factor in tried if factor < answer.factor]
    assert bound < answer.factor
    # The users' interval of .01 has to fit below, too, of all factors at once.
    assert max(weaker) < 0.05 * least / (0.06 - 0.016) * 1.01


def test_the_chosen_setting_keeps_the_condition_in_fresh_trainings():
    kept = []
    for number in range(20):
        rng = np.random.default_rng(number)

        def gains(factor, count, rng=rng):
            return 0.05 / factor + 0.005 * rng.normal(size=count)

        def trained(factor, count, gains=gains):
            return swept(rows(gains(factor, count)))

        condition = Condition.of_text("attacks <= guessing + .05")
        answer, _ = search("a", condition, trained, 5, 0.95)
        kept.append(np.mean(gains(answer.factor, 1000) <= 0.05))
    assert np.mean(kept) > 0.95


@pytest.mark.parametrize("most", [0.01, 0.3, 5.0, 1000.0])
def test_of_utility_the_most_noise_is_found(most):
    """Utility over the twin's falls to .8 at this noise, and further with more of it."""
    twin = VariantRow(target="b", settings={}, swept={})

    def trained(factor, count):
        ratio = 1.0 / (1.0 + 0.25 * factor / most)
        own = rows([0.5 * ratio] * count, "split", "utility", "HR@10")
        other = rows([0.5] * count, "split", "utility", "HR@10")
        beside = [row.model_copy(update={"variant": 1}) for row in other]
        whole = {"ci_low": None, "ci_high": None}
        made = swept([row.model_copy(update=whole) for row in (*own, *beside)])
        own_variant = made.variants[0].model_copy(update={"twin": 1})
        return made.model_copy(update={"variants": (own_variant, twin)})

    condition = Condition.of_text("utility >= .8 unprotected")
    answer, tried = search("a", condition, trained, 3, 0.95)
    if most < WEAKEST:
        assert answer.factor is None
        assert answer.words.startswith("No noise down to 0.0625 times")
    elif most > STRONGEST:
        assert answer.words.startswith("At least 256 times the paper's noise")
    else:
        assert most / STEP * 0.99 <= answer.factor <= most
        assert "Judged by HR@10 (split)." in answer.words
        assert min(factor for factor in tried if factor > answer.factor) > most


def test_where_nothing_keeps_it_that_is_said():
    def trained(factor, count):
        return swept(rows([0.4] * count))

    answer, _ = search("a", Condition.of_text("attacks <= guessing + .05"), trained, 3, 0.95)
    assert answer.factor is None
    assert answer.words.startswith("No noise up to 256 times the paper's keeps")


def test_what_trainings_cannot_tell_is_not_kept():
    def trained(factor, count):
        return swept(rows(np.resize([0.0, 0.09], count)))

    answer, _ = search("a", Condition.of_text("attacks <= guessing + .05"), trained, 2, 0.95)
    assert "(the trainings are inconclusive)" in answer.words


def test_what_failed_in_a_training_may_be_what_leaks():
    def trained(factor, count):
        return swept(rows([0.0] * count), errors=("a interaction-membership: ValueError",))

    answer, _ = search("a", Condition.of_text("attacks <= guessing + .05"), trained, 3, 0.95)
    assert answer.factor is None
    assert "are inconclusive" in answer.words


def test_a_figure_that_some_trainings_lack_tells_nothing():
    made = rows([0.0, 0.001, 0.002]) + rows([0.0, 0.001], metric="attribute-tree: macro F1")
    assert Condition.of_text("attacks <= guessing + .5").holds(made, 3, 0.95) is None


def test_every_scope_that_a_condition_names_needs_a_proof():
    claimed = rows([4.0] * 3, "user / any pair / server / training", "claimed", "epsilon")
    proved = rows([1.0] * 3, "user / any pair / server / round", "proved", "epsilon")
    at_delta = rows(
        [2.0] * 3, "user / any pair / server / training at delta 1e-05", "proved", "epsilon"
    )
    shown = rows(
        [9.0] * 3, "user / any pair / server / training at delta 1e-05", "shown", "epsilon"
    )
    condition = Condition.of_text("epsilon(user) <= 4")
    assert condition.holds(claimed + proved, 3, 0.95) is False
    assert condition.holds(claimed + proved + at_delta, 3, 0.95) is True
    assert condition.holds(claimed + proved + at_delta + shown, 3, 0.95) is False


def test_what_attackers_beyond_the_protocol_gain_is_said():
    def trained(factor, count):
        return swept(rows([0.0] * count) + rows([0.4] * count, f"server, {BEYOND}"))

    answer, _ = search("a", Condition.of_text("attacks <= guessing + .05"), trained, 3, 0.95)
    assert "An attacker who breaks it gains up to 0.4" in answer.words


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("attacks(interaction-membershp) <= guessing", Plan()),
        ("epsilon(usr) <= 1", Plan()),
        ("attacks <= guessing", Plan(attacks=())),
        ("attacks <= guessing", Plan(games=("round",))),
        ("utility >= .9 unprotected", Plan(games=("round",))),
    ],
)
def test_a_condition_of_which_no_plan_speaks_is_refused_before_it_runs(text, plan):
    with pytest.raises(InputError):
        Condition.of_text(text).check(plan)
