"""No attribute of a view leads to the stored form of its messages."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MethodType

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets import components
from fedrec_auditor.targets.components import Component, Dense, Payload, Reports, SparseRows
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import (
    ComponentView,
    PublicInfo,
    Round,
    RoundView,
    Transcript,
    Uploads,
    View,
)
from tests.targets.test_components import MESSAGES

USERS = np.arange(5)


def list_reachable(root: object) -> Iterator[tuple[str, object]]:
    """All objects reachable by attributes, items and values, private ones included."""
    todo: list[tuple[str, object]] = [("view", root)]
    known: list[object] = []  # kept alive, so that addresses are unique
    met: set[int] = set()
    while todo:
        path, value = todo.pop()
        if id(value) in met or isinstance(value, type | str | int | float | None):
            continue
        met.add(id(value))
        known.append(value)
        yield path, value
        if isinstance(value, Mapping):
            todo += [(f"{path}[{key!r}]", part) for key, part in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += [(f"{path}[]", part) for part in value]
        elif isinstance(value, np.ndarray):
            todo.append((f"{path}.base", value.base))
        elif type(value).__module__.startswith("fedrec_auditor"):
            names = {*dir(value), *getattr(value, "__dict__", {})}
            todo += [
                (f"{path}.{name}", getattr(value, name))
                for name in names
                if not name.startswith("__") and hasattr(value, name)
            ]
        elif isinstance(value, MethodType):
            todo.append((f"{path}.__self__", value.__self__))


def find_stored(root: object) -> list[str]:
    """Paths to stored components, to seeds, and to sparse arrays."""
    kinds = (
        Dense
        | components.RankOneMessages
        | SparseRows
        | components.RandomizedMessages
        | Reports
        | Streams
        | sparse.sparray
    )
    return [path for path, value in list_reachable(root) if isinstance(value, kinds)]


@functools.cache
def run_training(target: str) -> Transcript:
    data = Synthetic(n_users=20, n_items=15, profile=5.0, tastes=3).load()
    system = FAMILIES["targets"].load_class(target)().limit_rounds(1)
    found: Transcript = system.run(data, np.random.default_rng(0)).transcript
    return found


@pytest.mark.parametrize("vantage", Vantage)
@pytest.mark.parametrize("target", ["fcf", "fmf-ldp", "fedrec-apm", "bpr-mf", "lfl-sgdmf"])
def test_views_do_not_lead_to_the_stored_form(target: str, vantage: Vantage) -> None:
    view = run_training(target).view(vantage, np.random.default_rng(0))
    assert not find_stored(view)
    for one in view.rounds:
        for uploads in (one.uploads, one.cleartext):
            for part in (uploads.components if uploads else {}).values():
                assert not find_stored(part.take(np.arange(2)))


@pytest.mark.parametrize("target", ["fcf", "fmf-ldp", "fedrec-apm", "bpr-mf", "lfl-sgdmf"])
def test_the_walk_finds_the_stored_form_in_a_transcript(target: str) -> None:
    assert find_stored(run_training(target))


FORMS: dict[str, Component] = {
    "scalar": Dense(np.arange(5.0), Payload.BITS),
    **{name: MESSAGES[name] for name in ("dense", "rank one", "rows", "reports")},
}


@pytest.mark.parametrize("name", FORMS)
def test_component_views_show_the_sent_values(name: str) -> None:
    component = FORMS[name]
    wire = ComponentView(component)
    some = np.array([4, 1])
    assert (len(wire), wire.shape) == (5, component.shape)
    assert (wire.kind, wire.learning_rate) == (component.kind, component.learning_rate)
    np.testing.assert_array_equal(wire.to_dense(USERS), component.to_dense(USERS))
    np.testing.assert_array_equal(wire.sum_all(), component.sum_all())
    np.testing.assert_array_equal(wire.flag_sent_rows(USERS), component.flag_sent_rows(USERS))
    assert wire.flag_sent_rows(some).shape == (2, *component.shape[:1])
    np.testing.assert_array_equal(wire.take(some).to_dense(np.arange(2)), component.to_dense(some))
    taken = component.take(some)
    assert (taken.kind, taken.learning_rate) == (component.kind, component.learning_rate)
    np.testing.assert_allclose(taken.to_dense(np.arange(2)), component.to_dense(USERS)[some])
    total = component.to_dense(USERS).sum(axis=0)
    np.testing.assert_allclose(component.sum_all(), total, atol=1e-5)


def test_views_return_copies() -> None:
    values = np.zeros((6, 3))
    wire = ComponentView.create(values, Payload.MODEL)
    wire.to_dense(USERS)[:] = 1.0
    wire.take(USERS).to_dense(USERS)[:] = 1.0
    assert not values.any()


def make_view(**parts: Component) -> View:
    public = PublicInfo(algorithm="any", n_users=5, n_items=9)
    return Transcript(public=public, rounds=(Round(None, Uploads(USERS, parts)),)).view(
        Vantage.SERVER
    )


def test_views_are_restricted_to_a_group_of_components() -> None:
    parts = {"user.a": FORMS["dense"], "user.b": FORMS["scalar"], "item": FORMS["rows"]}
    view = make_view(**parts)
    assert view.group_names == ("user", "item")
    assert view.keep_part_group("user").group_names == ("user",)
    assert not view.keep_part_group("user").find_linked_rounds("item")
    assert [uploads.users.tolist() for uploads, _ in view.find_linked_rounds("item")] == [
        USERS.tolist()
    ]
    assert view.drop_uploads().rounds == (RoundView(broadcast=None),)


def test_bad_uploads_and_a_shuffle_without_a_generator_are_refused() -> None:
    with pytest.raises(InputError, match="Expected 4 messages"):
        Uploads(np.arange(4), FORMS)
    with pytest.raises(InputError, match="rng"):
        run_training("fcf").view(Vantage.SHUFFLED)


def test_the_aggregate_shows_participants_and_no_message() -> None:
    uploads = Uploads(USERS[::2], {"sent": ComponentView.create(np.eye(3), Payload.CHANGE)})
    public = PublicInfo(algorithm="any", n_users=5, n_items=9)
    made = Transcript(public=public, rounds=(Round(None, uploads),))
    (one,) = made.view(Vantage.AGGREGATE).rounds
    np.testing.assert_array_equal(one.senders_in_sum, [0, 2, 4])
    np.testing.assert_array_equal(one.aggregate["sent"], np.ones(3))
    assert one.uploads is one.shuffled is one.cleartext is None


@pytest.mark.parametrize("name", FORMS)
def test_shuffling_keeps_the_sent_values(name: str) -> None:
    component = FORMS[name]
    rounds = (Round(None, Uploads(USERS, {name: component})),)
    made = Transcript(public=PublicInfo(algorithm="any", n_users=5, n_items=9), rounds=rounds)
    (one,) = made.view(Vantage.SHUFFLED, np.random.default_rng(1)).rounds
    shuffled = one.shuffled[name]
    mean = shuffled.to_dense(np.arange(len(shuffled))).mean(axis=0)
    np.testing.assert_allclose(mean, component.sum_all() / 5, atol=1e-6)


SEEN_BY = {
    "uploads": (Vantage.SERVER,),
    "shuffled": (Vantage.SHUFFLED,),
    "aggregate": (Vantage.AGGREGATE,),
    "senders_in_sum": (Vantage.AGGREGATE,),
    "cleartext": (Vantage.SERVER, Vantage.AGGREGATE),
}


@pytest.mark.parametrize("vantage", Vantage)
def test_vantages_see_only_their_part_of_a_round(vantage: Vantage) -> None:
    """Messages are linked for the server, reordered by each shuffle, and summed otherwise."""
    many = np.arange(500)
    reports = Reports(many[:, None] % 5, many[:, None] % 3 > 0, 2.0, (5, 2))
    every = ComponentView.create(many * 1.0, Payload.CHANGE)
    sent = Uploads(many, {"all": every, "reports": reports})
    public = PublicInfo(algorithm="any", n_users=500, n_items=5)
    rounds = (Round(None, sent, cleartext=sent),)
    made = Transcript(public=public, rounds=rounds, published_model={"model": USERS})
    views = [made.view(vantage, np.random.default_rng(seed)) for seed in (1, 2)]
    for one, (part, vantages) in itertools.product(views[0].rounds, SEEN_BY.items()):
        assert (getattr(one, part) is not None) == (vantage in vantages), part
    if vantage is Vantage.RELEASE:
        assert [one.broadcast for one in views[0].rounds] == [made.published_model]
    if vantage is Vantage.SHUFFLED:
        for name in sent.components:
            first, second = (view.rounds[0].shuffled[name].to_dense(many) for view in views)
            assert not np.array_equal(first, second), "two shuffles, one order"


def test_cleartext_beside_a_sum_is_linked() -> None:
    parts = {
        "bits": ComponentView.create(np.eye(5), Payload.BITS),
        "noise": ComponentView.create(np.eye(5), Payload.CHANGE),
    }
    summed = RoundView(broadcast=None, senders_in_sum=USERS, cleartext=Uploads(USERS, parts))
    single = replace(summed, uploads=Uploads(USERS, {"noise": parts["noise"]}))
    public = PublicInfo(algorithm="any", n_users=5, n_items=5)
    view = View(vantage=Vantage.AGGREGATE, public=public, rounds=(summed, single)).add_cleartext()
    parts = [set() if one.uploads is None else set(one.uploads.components) for one in view.rounds]
    assert parts == [set(), {"noise"}, {"bits"}, {"bits"}]
    assert [one.is_cleartext for one in view.rounds] == [False, False, True, True]
    nothing = replace(view, rounds=(replace(single, cleartext=None),))
    assert nothing.add_cleartext() is nothing
