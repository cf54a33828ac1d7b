"""The target contract over every member of the family, plug-ins included."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.judging.accounting import exact_bounds
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.run.workload import cost_of
from fedrec_auditor.auditor.testing import targets
from fedrec_auditor.auditor.testing.attacks import narrow
from fedrec_auditor.auditor.testing.targets import (
    TargetCase,
    TargetContract,
    assert_one_by_one,
    data,
)
from fedrec_auditor.targets.papers.federated_mf.systems.dp_sgd_mf import DpSgdMf
from fedrec_auditor.targets.papers.federated_mf.systems.local_only import LocalOnly
from fedrec_auditor.targets.papers.federated_mf.systems.obj_pertb import ObjPertb
from fedrec_auditor.targets.spill import kept_bytes
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.systems.federated import Federated

NAMES = FAMILIES["targets"].names()
# What is asked of statements alone, of every system; other laws train it.
STATED = (
    targets.check_settings,
    targets.check_scoped_claims,
    targets.check_exact_bounds_stay_below_proofs,
    targets.check_no_scope_is_charged_less_than_any_within_it_is_known_to_lose,
    targets.check_events_compose_in_every_scope,
)


# Attacks that ask for messages of users, or for any; those that send none, or only parties'.
OF_USERS = (
    targets.check_exact_bounds_are_of_what_is_sent,
    targets.check_a_batch_of_clients_uploads_what_they_would_one_by_one,
    targets.check_repeated_uploads_follow_profile_by_profile,
    targets.check_a_message_depends_on_its_sender_only,
)
OF_MESSAGES = (
    *OF_USERS,
    targets.check_components,
    targets.check_the_shuffle_hides_who_sent_what,
)
SILENT = ("hfl-local-sgd", "lfl-pretrained", "mf-np", "privrec-cen", "random")
PARTIES = (
    *(
        "dp-sgd-mf",
        "dp-sgld",
        "fedpergnn",
        "fmf-hfl",
        "fmf-vfl",
    ),
    *("hfl-local-sgd", "hfl-sgdmf", "hfl-synsgd", "local-only", "obj-pertb"),
    "vfl-sgdmf",
)


@functools.cache
def case(name: str) -> TargetCase:
    """What states the defaults."""
    return TargetCase(FAMILIES["targets"].member(name)())


@functools.cache
def trained(name: str) -> TargetCase:
    """One training for all checks of a target, of messages that are small."""
    return TargetCase(narrow(name))


def parts(target: Federated) -> set[tuple[object, ...]]:
    """What it is composed of; only numbers may differ between equal ones."""
    return {
        (type(part), *(v for v in vars(part).values() if isinstance(v, bool | str)))
        for part in (target.learner, target.protection, target.route)
    }


def applies(law: Callable[[TargetCase], None], name: str) -> bool:
    """Whether there is anything for the law to hold, by what is known without a training."""
    target = case(name).target
    if law is targets.check_sampled_uploads_agree_with_the_stated_distribution:
        return bool(target.designed_pairs())
    if law is targets.check_exact_bounds_stay_below_proofs:
        return bool(exact_bounds(target, targets.POPULATION))
    if law is targets.check_no_scope_is_charged_less_than_any_within_it_is_known_to_lose:
        known = (target.mechanism(scope, targets.POPULATION) for scope in targets.SCOPES)
        return any(each is not None for each in known)
    return not (law in OF_USERS and name in PARTIES) and not (law in OF_MESSAGES and name in SILENT)


def checked() -> Iterator[Any]:
    """Every law of every target, and of compositions those that have a part not met before.

    The others' trainings wait for `make calibrate`.
    """
    known: set[tuple[object, ...]] = set()
    for name in NAMES:
        target = case(name).target
        again = isinstance(target, Federated) and parts(target) <= known
        if isinstance(target, Federated):
            known |= parts(target)
        for law in (each for each in TargetContract.laws if applies(each, name)):
            marks = pytest.mark.calibration if again and law not in STATED else ()
            yield pytest.param(name, law, marks=marks, id=f"{name}-{law.__name__}")


def test_what_is_left_out_sends_nothing_or_only_as_parties() -> None:
    public = {name: trained(name).run.transcript for name in {*SILENT, *PARTIES}}
    assert all(public[name].public.parties is not None for name in PARTIES)
    assert not any(public[name].rounds for name in SILENT)


def test_every_target_is_called_as_it_is_found() -> None:
    assert all(case(name).target.name == name for name in NAMES)


@pytest.mark.parametrize(("name", "law"), [*checked()])
def test_target_keeps_the_contract(name: str, law: Callable[[TargetCase], None]) -> None:
    law((case if law in STATED else trained)(name))


@pytest.mark.parametrize(
    "target",
    [
        LocalOnly(rounds=1),
        DpSgdMf(rounds=1, unit="user", trim=2),
        *(
            ObjPertb(as_published=published, unit=unit, trim=2, factors=4)
            for published, unit in product((True, False), ("rating", "user"))
        ),
    ],
    ids=repr,
)
def test_what_parties_send_of_one_user_depends_on_no_other(target: Target) -> None:
    assert_one_by_one(target, data(), None)


@pytest.mark.parametrize("name", NAMES)
def test_messages_are_kept_in_what_its_cost_says(name: str) -> None:
    """Within a factor of two, and 64 bytes of overhead each."""
    short = trained(name)
    cost = cost_of(short.short, short.interactions)
    rounds = short.run.transcript.rounds
    messages = sum(len(one.uploads.users) for one in rounds)
    shared = {id(part) for one in rounds for part in (one.broadcast or {}).values()}
    parts = [part for one in rounds for part in one.uploads.components.values()]
    kept = sum(kept_bytes(part, shared) for part in parts)
    assert cost.messages == pytest.approx(messages, abs=2)
    assert kept <= cost.messages * (2 * cost.bytes + 64)
    if name != "hfl-synsgd":  # its noise is drawn when it is read
        assert cost.messages * cost.bytes <= 2 * kept + 64 * messages


class WatchedCompute:
    """A ``Compute`` that notes whether its device is read."""

    threads, memory, folder = 1, 1 << 31, None
    is_read = False

    @property
    def device(self) -> str:
        self.is_read = True
        return "cpu:0"  # torch's name of the processor


@pytest.mark.parametrize("name", NAMES)
def test_the_device_is_used_by_those_that_say_so(name: str) -> None:
    target: Target = FAMILIES["targets"].member(name)()
    compute: Any = WatchedCompute()
    target.shortened(1).run(data(), np.random.default_rng(0), compute=compute)
    assert compute.is_read == target.trains_on_device
