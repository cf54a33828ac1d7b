"""Every reader on every form of message: it tells what it says, of whom it is asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.attacks import TARGETS, data, training
from fedrec_auditor.auditor.testing.readers import (
    ReaderCase,
    ReaderContract,
    check_evidence_beside_the_true_prior,
    told,
)

OF_NO_INTERACTIONS = {"FirstLayer", "RatingRows"}
UNREAD = ("gd-dr",)
READ = [target for target in TARGETS if target not in UNREAD]


def test_all_members_of_the_family_are_asked() -> None:
    asked = {type(reader).__name__ for reader in reading.readers()}
    family = FAMILIES["readers"]
    assert asked == {family.member(name).__name__ for name in family.names()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("vantage", Vantage)
def test_no_two_readers_tell_the_same_but_of_interactions(target: str, vantage: Vantage) -> None:
    """Of these a list and a table may tell both, and the stronger ratio counts."""
    view = training(target).transcript.view(vantage, np.random.default_rng(0))
    users = np.array([3, 17, 40])
    found = [told(reader.read(view, users)) for reader in reading.reading(view)]
    others = [kinds - {"log_ratio"} for kinds in found]
    assert sum(map(len, others)) == len(set().union(*others))


@pytest.mark.parametrize("target", READ)
@pytest.mark.parametrize("check", ReaderContract.laws)
def test_readers_keep_the_contract(check: Callable[[ReaderCase], None], target: str) -> None:
    """Every reader that applies, and at least one of them."""
    run = training(target)
    cases = [
        ReaderCase(reader, run, data())
        for reader in reading.reading(run.transcript.view(Vantage.SERVER))
        if check is not check_evidence_beside_the_true_prior
        or type(reader).__name__ not in OF_NO_INTERACTIONS
    ]
    assert cases
    for case in cases:
        check(case)


@pytest.mark.parametrize("target", UNREAD)
def test_no_reader_applies_to_the_targets_that_are_left_out(target: str) -> None:
    assert not reading.reading(training(target).transcript.view(Vantage.SERVER))


@pytest.mark.parametrize("target", ["fedncf", "fmf-lfl", "fofl-self"])
def test_readers_of_no_interactions_say_nothing_of_them(target: str) -> None:
    view = training(target).transcript.view(Vantage.SERVER)
    some = [each for each in reading.reading(view) if type(each).__name__ in OF_NO_INTERACTIONS]
    assert [told(each.read(view, np.arange(5))) & {"log_ratio"} for each in some] == [set()]


def test_nothing_is_read_where_nothing_is_linked() -> None:
    for target in TARGETS:
        view = training(target).transcript.view(Vantage.SERVER).without_uploads()
        assert not reading.reading(view)
        assert "links no message" in reading.refusal(view)
