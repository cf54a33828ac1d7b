"""Systems without claims, such as unprotected versions, and scopes without a finite epsilon."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.systems.base import Population

TARGETS = FAMILIES["targets"]
PROTECTED = [name for name in TARGETS.list_names() if TARGETS.load_class(name)().unprotected_name]
MANY = Population(n_users=943, n_items=1682)
SENT = (
    "fcf fcf-meta fedlightgcn fedmf fedncf fedrec fmf-hfl fmf-lfl fofl-self lcf-ub nn-self privrec"
)
# Systems that send no user data.
SILENT = {"hfl-local-sgd", "lfl-pretrained", "random"}
UNPROMISED = [*SENT.split(), "fmf-vfl", "mf-np", "privrec-cen", *sorted(SILENT)]


def test_most_papers_have_an_unprotected_system() -> None:
    assert {"dplcf-ap", "fmf-ldp", "dp-privrec", "lfl-sgdmf", "fedrec-apm"} <= set(PROTECTED)


@pytest.mark.parametrize("name", PROTECTED)
def test_unprotected_systems_are_evaluated_alike_without_claims(name: str) -> None:
    target = TARGETS.load_class(name)()
    plain = TARGETS.load_class(target.unprotected_name)()
    assert plain.name == target.unprotected_name
    assert plain.evaluation == target.evaluation
    claims = plain.get_claims(MANY)
    assert all(math.isinf(scoped.claim.epsilon) for scoped in claims)


@pytest.mark.parametrize("name", UNPROMISED)
def test_systems_without_claims_have_infinite_epsilon(name: str) -> None:
    target = TARGETS.load_class(name)()
    (scoped,) = target.get_claims(MANY)
    scope, central = scoped.scope, name in ("mf-np", "privrec-cen")
    assert math.isinf(scoped.claim.epsilon)
    assert scope.vantage is (Vantage.RELEASE if central else Vantage.SERVER)
    event = NoOpDpEvent() if name in SILENT else NonPrivateDpEvent()
    for vantage in Vantage:
        assert target.get_event(replace(scope, vantage=vantage), MANY) == event
    mechanism = target.get_mechanism(scope, MANY)
    assert (mechanism is not None) == (name in SENT.split())
    assert mechanism is None or math.isinf(find_exact_bound(mechanism, scope).epsilon)
    assert target.get_mechanism(replace(scope, vantage=Vantage.PEERS), MANY) is None
    assert target.design_pairs() == ()


def test_the_list_of_systems_without_claims_is_complete() -> None:
    made = {name: TARGETS.load_class(name)().get_claims(MANY) for name in TARGETS.list_names()}
    none = {name for name, (first, *_) in made.items() if math.isinf(first.claim.epsilon)}
    assert none == {*UNPROMISED, "fedrec-gn"}  # claims epsilon at a positive delta
