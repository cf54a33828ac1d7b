"""Command ``auditor estimate``: computes a lower bound on epsilon from saved canary scores."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from fedrec_auditor.accountants.verdict import FailOn, Gate, Judgement
from fedrec_auditor.auditor.commands.options import AllowOption, JsonOption, VerdictLevelOption
from fedrec_auditor.auditor.machine.output import catch_output_errors

if TYPE_CHECKING:
    from fedrec_auditor.accountants.statements import Bound
    from fedrec_auditor.auditor.worlds.guesses import ThresholdLimits

# Points of the curve of epsilon by delta ("curve") and of Renyi divergence by order ("renyi").
CurvePoints = dict[str, list[dict[str, float]]]
_BAND = "all-thresholds"
_DELTAS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1)


ScoresArgument = Annotated[
    Path,
    Argument(
        metavar="SCORES.npz",
        help="Arrays in_scores (n, ...) and out_scores (m, ...), one row per training with and "
        "without the canary. If canaries have identifiers, also in_ids (n,) and out_ids (m,).",
    ),
]
EpsilonOption = Annotated[float | None, Option(help="Claimed epsilon to be tested.")]
DeltaOption = Annotated[float, Option(help="Delta of the claim and of the bound.")]
EstimatorOption = Annotated[
    str | None,
    Option(
        help="Estimator from `auditor list estimators`. Default: joint-binomial, or all-thresholds "
        "if one array has fewer than 200 scores and the other has many more. With --one-run: auto "
        "(the default), guesses or trade-off."
    ),
]
OneRunOption = Annotated[
    bool,
    Option(
        "--one-run",
        help="All scores come from one training, which includes each canary independently with "
        "probability 1/2.",
    ),
]
RepeatsOption = Annotated[
    bool,
    Option(
        "--repeats", help="Accept equal scores, although each is of another training or canary."
    ),
]
CurveOption = Annotated[
    bool, Option("--curve", help="Also bound epsilon at several deltas, jointly at --confidence.")
]
RenyiOption = Annotated[
    list[float] | None,
    Option(metavar="ORDER", help="Also bound the Renyi divergence of ORDER. Repeatable."),
]
ConfidenceOption = Annotated[float, Option(help="Confidence of the bound.")]
SeedOption = Annotated[int, Option(help="Seed of the split into scores that select and that test.")]


def command(
    scores: ScoresArgument,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = 0.0,
    estimator: EstimatorOption = None,
    one_run: OneRunOption = False,
    repeats: RepeatsOption = False,
    curve: CurveOption = False,
    renyi: RenyiOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    fail_on: VerdictLevelOption = FailOn.VIOLATED,
    allow: AllowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bound epsilon from below by scores of trainings with and without a canary.

    Each score comes from a separate training, or all scores come from one training (--one-run).
    Exits with 1 if the claim is refuted, and with 3 if the scores are too few to refute it. With
    --curve or --renyi the estimator is all-thresholds.
    """
    from fedrec_auditor.auditor.worlds.scores import CanaryScores, from_scores, read_scores
    from fedrec_auditor.reports.writers import paragraph

    if curve or renyi:
        estimator = _choose_estimator(estimator, one_run)
    arrays = read_scores(scores)
    bound = from_scores(
        arrays["in_scores"],
        arrays["out_scores"],
        in_ids=arrays.get("in_ids"),
        out_ids=arrays.get("out_ids"),
        delta=delta,
        confidence=confidence,
        estimator=estimator,
        one_run=one_run,
        seed=seed,
        repeats=repeats,
    )
    points: CurvePoints = {}
    if curve or renyi:
        canaries = CanaryScores.build(arrays["in_scores"], arrays["out_scores"], repeats=repeats)
        band = canaries.compute_limits(confidence=confidence, seed=seed)
        points = _points(band, sorted({delta, *_DELTAS}) if curve else (), sorted({*(renyi or ())}))
    judgement = None if epsilon is None else _judge_epsilon(bound, epsilon, delta)
    unused = len(arrays["in_scores"]) + len(arrays["out_scores"]) - (bound.samples or 0)
    with catch_output_errors("The exit code is that of the verdict."):
        if as_json:
            print(_format_json(bound, unused, judgement, points))
        else:
            width = paragraph.get_output_width()
            lines = [*describe_bound(bound, judgement), *_describe_curve(points, bound)]
            if unused:
                lines.append(("unused", f"{unused:,} of the scores"))
            if judgement is not None and epsilon is not None:
                lines += _describe_power(bound, judgement, epsilon, one_run)
            for label, text in lines:
                wrapped = paragraph.wrap_paragraph(text, width, hang=2)
                print(paragraph.wrap_entry(label, text, width) if label else wrapped)
            sys.stdout.flush()
    gate = Gate(fail_on.without_severities, allow or [])
    raise Exit(gate.exit_code([] if judgement is None else [judgement.verdict]))


def _points(band: ThresholdLimits, deltas: Sequence[float], orders: Sequence[float]) -> CurvePoints:
    """Computes points of curves: epsilon at each of ``deltas``, and Renyi divergences of
    ``orders``.
    """
    return {
        "curve": [{"delta": each, "epsilon": band.bound_epsilon(each)} for each in deltas],
        "renyi": [{"order": each, "divergence": band.bound_renyi(each)} for each in orders],
    }


def _judge_epsilon(bound: Bound, epsilon: float, delta: float) -> Judgement:
    """Judges the claimed epsilon and delta of the command line by a measured bound."""
    from fedrec_auditor.accountants.statements import Claim
    from fedrec_auditor.accountants.verdict import judge_claim

    claim = Claim(
        epsilon=epsilon,
        delta=delta,
        scope=bound.scope,
        statement=f"Epsilon is {epsilon:g} at delta {delta:g}.",
        source="the command line",
    )
    return judge_claim(claim, scope=bound.scope, measured=bound)


def _describe_power(
    bound: Bound, judgement: Judgement, epsilon: float, one_run: bool
) -> Iterator[tuple[str, str]]:
    """Yields a text on the number of scores that would refute the claim in half of all cases.

    Nothing is yielded unless the claim is UNSUBSTANTIATED (not refuted, not proved).
    """
    from fedrec_auditor.accountants.verdict import Verdict
    from fedrec_auditor.auditor.worlds.measure import RefutationDraws
    from fedrec_auditor.auditor.worlds.one_run import OneRun

    power = RefutationDraws.from_bound(epsilon, bound, OneRun() if one_run else None)
    if power and judgement.verdict is Verdict.UNSUBSTANTIATED:
        draws = "canaries of one training" if one_run else "draws of each world"
        yield "power", f"in about half of all cases, {power.describe(draws)}"


def describe_bound(bound: Bound, judgement: Judgement | None) -> Iterator[tuple[str, str]]:
    """Yields pairs of label and text that describe a measured bound on epsilon.

    ``bound``: the measured bound.
    ``judgement``: judgement of the claim, described first with an empty label; None without a
        claim.
    """
    from fedrec_auditor.reports.say import capitalize_first

    at = f"at delta {bound.delta:g}, at confidence {bound.confidence:.6g}"
    if judgement is None:
        yield "", f"Epsilon is at least {bound.epsilon:.6g}, {at}"
    else:
        yield "", f"{capitalize_first(judgement.verdict.label)}: {judgement.reason}"
        yield "bound", f"epsilon is at least {bound.epsilon:.6g}, {at}"
    yield "scope", f"{bound.scope} (unless the canaries represent something else)"
    yield "how", f"{bound.source}, {bound.samples:,} scores"
    if math.isfinite(bound.largest):
        limit = f"with every guess right, these scores would show epsilon {bound.largest:.6g}"
        yield "limit", limit
    for assumption in bound.assumptions:
        yield "if", assumption
    if (witness := bound.witness) is not None:
        yield "event", witness.output
        yield (
            "chances",
            f"{witness.probability_a:.6g} where {witness.input_a}, {witness.probability_b:.6g} "
            f"where {witness.input_b}",
        )
        if witness.note:
            yield "note", witness.note


def _choose_estimator(estimator: str | None, one_run: bool) -> str:
    """Returns the name of the only estimator that gives curves of epsilon.

    Raises InputError if the user requests another estimator, or --one-run.
    """
    from fedrec_auditor.accountants.errors import InputError

    if one_run or estimator not in (None, _BAND):
        got = "--one-run" if one_run else f"--estimator {estimator}"
        raise InputError(
            f"Expected the estimator {_BAND} for --curve and --renyi, got {got}. Leave {got} out."
        )
    return _BAND


def _describe_curve(shown: CurvePoints, bound: Bound) -> Iterator[tuple[str, str]]:
    if found := shown.get("curve"):
        points = [f"{each['epsilon']:.4g} at delta {each['delta']:g}" for each in found]
        yield "curve", f"epsilon is at least {', '.join(points)}"
    if found := shown.get("renyi"):
        points = [f"{each['divergence']:.4g} of order {each['order']:g}" for each in found]
        yield "renyi", f"the larger divergence is at least {', '.join(points)}"
    if shown:
        yield "together", f"all of these hold at confidence {bound.confidence:.6g}"


def _format_json(bound: Bound, unused: int, judgement: Judgement | None, shown: CurvePoints) -> str:
    import dataclasses

    from fedrec_auditor.reports.record.store import to_json

    judged = {} if judgement is None else dataclasses.asdict(judgement)
    found = {"bound": dataclasses.asdict(bound), "unused": unused, **shown, **judged}
    return json.dumps(to_json(found), indent=2, allow_nan=False)
