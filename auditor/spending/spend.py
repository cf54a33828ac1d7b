"""Privacy accounting of described noise: epsilon per round and in total, and the noise, rounds or
sampling rate for a target epsilon.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import scipy

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.accountants.events.documents import read_event
from fedrec_auditor.accountants.events.dp import DpEvent, SelfComposedDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements import Bound, Horizon, Scope, Side, check_epsilon
from fedrec_auditor.accountants.theorems import neighbours
from fedrec_auditor.accountants.verdict import refutes
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.spending.deployment import (
    RANDOMIZED_RESPONSE,
    AccountRequest,
    Deployment,
    StatedNoise,
)
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.writers.paragraph import NON_TERMINAL_WIDTH, wrap_paragraph
from fedrec_auditor.targets.systems.base import Population, ScopedClaim
from fedrec_auditor.targets.wrapped.client import convert_to_input_error

# Significant digits of noise and rates, rounded to the side that meets the target; three digits if
# they are close enough.
_DIGITS = 5
_MAX_ROUNDS = 10**7
# Logarithm of the factor between a value that meets the target and a value that does not, and
# largest absolute logarithm of the ratio of an epsilon to the target.
_LOG_STEP, _MAX_LOG = 3e-5, 50.0


def solve_setting(
    request: AccountRequest, target_epsilon: float, compute_total: Callable[[AccountRequest], float]
) -> float:
    """Computes the setting that ``request`` leaves out (noise, rounds or rate), such that the total
    epsilon is at most ``target_epsilon``.

    ``compute_total`` computes the epsilon of all rounds together from complete settings. If epsilon
    is monotone in the setting, the result is within a relative 2e-4 of the best value.

    Raises InputError if no setting is left out, or if no tried value meets the target.
    """
    check_epsilon(target_epsilon)
    if not 0.0 < target_epsilon < math.inf:
        raise InputError(f"Expected 0 < target_epsilon < inf, got {target_epsilon!r}. Give 1, e.g.")
    name, users, noise = request.missing_setting, request.users, request.noise
    if not name:
        raise InputError(
            "Expected target_epsilon with one setting left out, got values for all. Leave out "
            "the setting to compute: the noise (give only its name, such as z), rounds or rate."
        )

    @functools.cache
    def slack(value: float) -> float:
        """ln of the target divided by the epsilon at ``value``, but at least -50; negative if
        epsilon is above the target.
        """
        epsilon = compute_total(request.fill_missing(value))
        return max(math.log(target_epsilon) - math.log(max(epsilon, 1e-300)), -_MAX_LOG)

    if name == "rounds":
        return _find_max(slack, _MAX_ROUNDS, name, target_epsilon)
    if name == "rate" and users is not None:
        return _find_max(lambda m: slack(m / users), users, "rate x users", target_epsilon) / users
    good, bad = 1e-9, 1.0
    if noise is not None and noise.amount is None:
        good, bad = noise.kind.max_tried_amount, noise.kind.min_tried_amount
        if noise.kind is RANDOMIZED_RESPONSE:
            good, bad = bad, good
    if slack(bad) >= 0.0:
        return bad
    if slack(good) < 0.0:
        raise _refuse_target(name, good, target_epsilon)
    root = scipy.optimize.brentq(
        lambda x: slack(math.exp(x)), math.log(good), math.log(bad), xtol=_LOG_STEP / 2
    )
    found, step = math.exp(root), math.copysign(_LOG_STEP, good - bad)
    while slack(found) < 0.0:
        found *= math.exp(step)
    return _round_value(slack, found, step)


def _round_value(slack: Callable[[float], float], good: float, better: float) -> float:
    """``good`` rounded to few digits on the side that meets the target, if the rounded number meets
    the target; otherwise ``good`` itself.
    """
    unit = 10.0 ** (math.floor(math.log10(good)) + 1 - _DIGITS)
    count = math.ceil(good / unit) if better > 0 else math.floor(good / unit)
    for rounded in (float(f"{good:.3g}"), float(f"{count * unit:.{_DIGITS}g}")):
        if abs(rounded / good - 1.0) < 2e-4 and slack(rounded) >= 0.0:
            return rounded
    return good


def _find_max(slack: Callable[[float], float], limit: int, name: str, target: float) -> int:
    """The largest integer up to ``limit`` whose epsilon meets the target, that is, for which
    ``slack`` is not negative.
    """
    low, high = 1, 2
    if slack(low) < 0.0:
        raise _refuse_target(name, 1, target)
    while high < limit and slack(high) >= 0.0:
        # Epsilon grows at least as the square root of the number, and at most in proportion to it.
        low, high = high, min(limit, max(2 * high, math.floor(high * math.exp(1.5 * slack(high)))))
    return bisect_left(range(min(high, limit) + 1), True, lo=low, key=lambda m: slack(m) < 0.0) - 1


def _refuse_target(name: str, value: float, target: float) -> InputError:
    return InputError(
        f"Expected a target_epsilon that some value of {name} meets, got {target:g}, which even "
        f"{name} = {value:g} exceeds. Give a larger epsilon or delta, or change other settings."
    )


# Placeholder for the population, on which a stated deployment does not depend.
_ANYBODY = Population(n_users=1, n_items=1)


@dataclass(frozen=True, slots=True)
class Account:
    """Result of ``account``: proved upper bounds and attained lower bounds on epsilon.

    - ``findings``: one finding for each adjacency, for all rounds and for one round. Each contains
      both bounds, and the verdict on a claim. The first finding is for all rounds under the
      requested adjacency.
    - ``solved``: the computed value by the name of its setting, if ``target_epsilon`` was given;
      otherwise empty.
    """

    findings: tuple[Finding, ...]
    solved: dict[str, float]

    @property
    def total(self) -> Finding:
        """Finding (bounds and verdict) for all rounds together, under the requested adjacency."""
        return self.findings[0]

    @property
    def per_round(self) -> Finding:
        """Finding (bounds and verdict) for a single round under the requested adjacency; ``total``
        without such a finding.
        """
        rounds = (f for f in self.findings if f.scope.horizon is not Horizon.TRAINING)
        return next(rounds, self.total)

    @property
    def statement(self) -> str:
        """The epsilon and delta to state for all rounds, with their scope and assumptions.

        Epsilon is the proved upper bound, rounded up to 3 significant digits.
        """
        proof, scope = self.total.accounted, self.total.scope
        if proof is None or math.isinf(proof.epsilon):
            return "State: no epsilon, because no finite epsilon is proved."
        stated = f"State: (epsilon = {say.format_ceil(proof.epsilon)}, delta = {proof.delta!r})"
        where = f"for {say.describe_scope(scope)}, {scope.adjacency} adjacency"
        return say.join_texts(f"{stated} {where}", say.describe_assumptions(proof)) + "."

    def describe(self, width: int = NON_TERMINAL_WIDTH) -> str:
        """Formats the findings (bounds and verdicts) as text in lines of at most ``width`` columns,
        unless a word is longer. The text ends with ``statement``.
        """
        from fedrec_auditor.reports.writers.terminal import format_findings

        return f"{format_findings(self.findings, width)}\n\n{wrap_paragraph(self.statement, width)}"

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        total, per_round = map(say.format_proved_epsilon, (self.total, self.per_round))
        bounds = f"at most {total} in total, {per_round} per round"
        return f"<{self.total.target}: epsilon {bounds}, at delta {self.total.claim.delta:g}>"

    def as_data(self) -> dict[str, Any]:
        """Returns the result as a dictionary for JSON.

        Its keys are ``solved`` (computed settings), ``statement``, and ``findings`` (bounds and
        verdicts).
        """
        from fedrec_auditor.reports.record.store import to_json

        rows = [row.model_dump(mode="python") for row in self.findings]
        return {"solved": self.solved, "statement": self.statement, "findings": to_json(rows)}


def account(
    *,
    gaussian: StatedNoise | None = None,
    laplace: StatedNoise | None = None,
    randomized_response: StatedNoise | None = None,
    event: DpEvent | str | None = None,
    rate: float | None = None,
    rounds: int | None = None,
    delta: float = 0.0,
    sampling: str = "poisson",
    users: int | None = None,
    unit: str = "user",
    adjacency: str | None = None,
    shuffle: int | None = None,
    interactions_per_user: int | None = None,
    target_epsilon: float | None = None,
    claimed_epsilon: float | Callable[..., float] | None = None,
) -> Account:
    """Computes epsilon per round and in total at ``delta``, as a proved upper bound and an attained
    lower bound.

    Exactly one of the first four arguments states how the data are protected:

    - ``gaussian``: noise multiplier z of Gaussian noise on the sum of the contributions of all
      units: standard deviation divided by the clipping norm.
    - ``laplace``: noise multiplier of Laplace noise: scale divided by the L1 clipping norm.
    - ``randomized_response``: epsilon of local reports, or text such as "p=0.75,k=4" (probability p
      of reporting the true one of k categories).
    - ``event``: an event of dp-accounting, or its JSON.

    The other settings:

    - ``rate``: fraction of the units that a round samples.
    - ``rounds``: number of rounds.
    - ``delta``: delta at which epsilon is computed.
    - ``sampling``: "poisson" samples each unit independently, "fixed" samples rate x ``users``
      units.
    - ``users``: number of units, for fixed sampling.
    - ``unit``: unit whose contribution is clipped.
    - ``adjacency``: adjacency to report first: "add-remove", the default, or "replace", the default
      for fixed sampling.
    - ``shuffle``: number of users whose local reports are shuffled.
    - ``interactions_per_user``: with unit "interaction", also accounts for users with this number
      of interactions.
    - ``target_epsilon``: epsilon that all rounds together must not exceed. One omitted setting is
      then computed: the most rounds, the largest rate, or the least noise if only its symbol is
      given, such as ``gaussian="z"``.
    - ``claimed_epsilon``: claim for all rounds together, on which a verdict is given: a number, or
      a function that computes it, with settings above as its parameters.

    Raises InputError for inconsistent settings, and AuditError if a lower bound exceeds a proved
    upper bound.

    >>> found = account(gaussian=1.1, rate=0.01, rounds=1000, delta=1e-6)
    >>> proved = [found.per_round.accounted.epsilon, found.total.accounted.epsilon]
    >>> "{:.3f} per round, {:.3f} in total".format(*proved)
    '0.254 per round, 1.753 in total'
    >>> found.total.scope.adjacency, f"no less than {found.total.measured.epsilon:.3f}"
    (<Adjacency.ADD_REMOVE: 'add-remove'>, 'no less than 1.753')
    >>> print(found.statement)
    State: (epsilon = 1.76, delta = 1e-06) for all data of one user, over the whole training,
    against a server behind secure aggregation, add-remove adjacency, if the adversary does not
    learn who was sampled.
    >>> def accountant(gaussian, rounds):
    ...     return rounds**0.5 / gaussian
    >>> account(gaussian=2, rounds=9, delta=1e-6, claimed_epsilon=accountant).total.verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    # The parameters of a function ``claimed_epsilon`` are names of the settings.
    arguments = dict(locals())
    for name in ("target_epsilon", "claimed_epsilon"):
        del arguments[name]
    if None not in (target_epsilon, claimed_epsilon):
        raise InputError("Expected target_epsilon or claimed_epsilon, got both. Omit one of them.")
    if event is not None:
        one: Any = read_event(event) if isinstance(event, str) else event
        repeats = isinstance(one, SelfComposedDpEvent) and one.count == math.floor(one.count) > 0
        if rounds is None:
            one, arguments["rounds"] = (one.event, int(one.count)) if repeats else (one, 1)
        arguments["event"] = one
    stated = AccountRequest(**arguments)
    accountants, name, solved = accounting.list_accountants(), stated.missing_setting, {}
    if target_epsilon is not None:
        found = solve_setting(stated, target_epsilon, lambda trial: _compose(trial, accountants))
        stated, solved = stated.fill_missing(found), {name: found}
    findings = [
        _judge(deployment, scoped, accountants)
        for deployment in stated.make_deployments(_resolve(target_epsilon, claimed_epsilon, stated))
        for scoped in deployment.get_claims(_ANYBODY)
    ]
    return Account(tuple(findings), solved)


def _resolve(
    target: float | None, claimed: float | Callable[..., float] | None, stated: AccountRequest
) -> float:
    """Claimed or target epsilon; infinite if neither is given. Raises InputError if the user's
    function ``claimed`` does not return a number.
    """
    if callable(claimed):
        given = {field.name: getattr(stated, field.name) for field in fields(stated)}
        settings = {"rate": 1.0, "rounds": 1} | {k: v for k, v in given.items() if v is not None}
        if stated.noise is not None:
            settings[stated.noise.kind.name] = stated.noise.amount
        wanted = inspect.signature(claimed).parameters.values()
        missing = [p.name for p in wanted if p.name not in settings and p.default is p.empty]
        if missing:
            raise InputError(
                f"Expected claimed_epsilon to take only the given settings {', '.join(settings)}, "
                f"got its parameter {missing[0]}. Give this setting, or a default of the parameter."
            )
        with convert_to_input_error("the accountant"):
            claimed = claimed(**{p.name: settings[p.name] for p in wanted if p.name in settings})
        if not isinstance(claimed, numbers.Real):
            raise InputError(
                f"Expected a number from claimed_epsilon, got {claimed!r}. Return only epsilon."
            )
    promised = claimed if target is None else target
    if promised is not None and not promised >= 0.0:
        raise InputError(f"Expected claimed_epsilon >= 0, got {promised!r}. Give, e.g., 1.0.")
    return math.inf if promised is None else float(promised)


def _compose(stated: AccountRequest, accountants: Sequence[Accountant]) -> float:
    """Smallest proved epsilon of all rounds together, under the requested adjacency."""
    deployment, *_ = stated.make_deployments()
    scope = deployment.make_scope(deployment.adjacencies[0], total=True)
    proof = accounting.find_upper_bound(deployment, scope, _ANYBODY, deployment.delta, accountants)
    return _check_proof(proof, deployment).epsilon


def _check_proof(proof: Bound | None, deployment: Deployment) -> Bound:
    """Returns ``proof``. Raises InputError if it is None, because no accountant supports the
    event.
    """
    if proof is None:
        raise InputError(
            "Expected events that a single accountant supports together, got "
            f"{neighbours.format_leaf_names(deployment.round_event)}. Account them separately, or "
            "use a PureDpEvent for events with a pure epsilon."
        )
    return proof


def _judge(deployment: Deployment, case: ScopedClaim, accountants: Sequence[Accountant]) -> Finding:
    """Finding (bounds and verdict) in one scope. Raises AuditError if its lower bound exceeds its
    proved upper bound.
    """
    lower = _find_lower_bound(deployment, case.scope)
    finding = accounting.judge_scoped_claim(
        deployment, case, _ANYBODY, exact_bounds=[lower], accountants=accountants
    )
    upper = _check_proof(finding.accounted, deployment)
    if refutes(lower, upper):
        raise AuditError(
            f"Expected no lower bound above the proved epsilon {upper.epsilon:.9g} at delta="
            f"{upper.delta:.3g} for {deployment.name}, got {lower.epsilon:.9g}. One of the two "
            "bounds is wrong. Report this line, and trust neither bound."
        )
    # The two bounds may be equal except for rounding.
    capped = replace(lower, epsilon=min(lower.epsilon, upper.epsilon))
    return finding.model_copy(update={"measured": capped})


def _find_lower_bound(deployment: Deployment, scope: Scope) -> Bound:
    """Lower bound on epsilon that two neighbouring inputs attain, in a scope."""
    one, delta = deployment.round_event, deployment.delta
    event = deployment.get_event(scope, _ANYBODY)
    if deployment.report_bit_probs is not None and isinstance(one, ShuffledDpEvent):
        rounds = deployment.count_rounds(scope)
        shown = neighbours.compute_lower_shuffle_epsilon(
            *deployment.report_bit_probs, one.n_users, rounds, delta
        )
        source = "the number of shuffled reports of one kind, given the inputs of all other users"
        supposing: tuple[str, ...] = ()
    else:
        shown = neighbours.compute_attained_epsilon(event, delta)
        supposing = neighbours.list_attainment_assumptions(event)
        source = "two neighbours that attain the losses, composed from below"
    return Bound(
        epsilon=shown,
        side=Side.LOWER,
        scope=scope,
        delta=delta,
        source=source,
        assumptions=supposing,
    )
