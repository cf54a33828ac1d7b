"""Tests of linkage: the game removes senders, scores links, and attacks weaken with noise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background, LinkScores
from fedrec_auditor.attacks.linkage import Linkage
from fedrec_auditor.auditor.games import linkage
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.transcript import Uploads, View
from tests.attacks.synthetic import make_view, send
from tests.auditor.games.played import make_game
from tests.contracts.trainings import as_arrays

DATA = Synthetic(n_users=150, n_items=60, profile=12, signal=1.0, seed=3).load()
ATTACK = Linkage()
SERVER, SHUFFLED = Vantage.SERVER, Vantage.SHUFFLED


def bit_view(*rounds: tuple[np.ndarray, np.ndarray]) -> View:
    """A view of bits without a known channel: senders and their bits, round by round."""
    kept = (send({"bits": Dense(values, Payload.BITS)}, users=users) for users, values in rounds)
    return make_view(*kept, users=40, items=rounds[0][1].shape[1])


def run(
    view: View, vantage: Vantage = SERVER, seed: int = 0, attack: Any = ATTACK
) -> dict[str, Any]:
    played = make_game(attack, replace(view, vantage=vantage), DATA, seed, is_quick=False)
    rows = linkage.score_attack(played)
    return {row.metric: row for row in rows if isinstance(row, AttackRow)}


class ScriptedLinks:
    """An attack on the server's view whose link scores are a function of the view."""

    family, reference = ATTACK.family, "scripted"
    needs_known = False

    def __init__(self, script: Any) -> None:
        self.script = script

    def refusal(self, view: View) -> str:
        return ""

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> LinkScores:
        candidates = view.rounds[0].uploads.users
        last = view.rounds[-1].uploads.components["bits"]
        return LinkScores(scores=self.script(view, last, candidates), candidate_senders=candidates)


@pytest.mark.parametrize("vantage", [SERVER, SHUFFLED])
def test_memoised_bits_are_linked_and_fresh_bits_are_not(vantage: Vantage) -> None:
    rng = np.random.default_rng(1)
    users, memoised = np.arange(40), rng.integers(2, size=(40, 50))
    linked = run(bit_view((users, memoised), (users, memoised)), vantage)
    assert {row.value for row in linked.values()} == {1.0, 1 - 1 / 40}
    fresh = run(bit_view((users, memoised), (users, rng.integers(2, size=(40, 50)))), vantage)
    assert all(row.ci_low <= row.baseline for row in fresh.values())


@pytest.mark.parametrize("kind", [Payload.CODES, Payload.ITEMS])
def test_lists_are_linked_in_any_order(kind: Payload) -> None:
    rng = np.random.default_rng(1)
    listed = rng.random((40, 50)).argsort(axis=1)[:, :12]
    rounds = (send({"list": Dense(rng.permuted(listed, axis=1), kind)}) for _ in range(2))
    linked = run(make_view(*rounds, users=40, items=50))
    assert linked["linkage top-1"].value == 1.0


@pytest.mark.parametrize(("users", "confidence"), [(2, 0.95), (3, 0.95), (3, 0.99), (4, 0.999)])
def test_too_few_users_give_a_reason(users: int, confidence: float) -> None:
    """Perfect guesses of ``users`` users are not above chance; those of one more user are."""
    for n in (users, users + 1):
        whose, sent = np.arange(n), np.random.default_rng(0).integers(2, size=(n, 50))
        view = bit_view((whose, sent), (whose, sent))
        rows = linkage.score_attack(
            make_game(ATTACK, view, DATA, is_quick=False, confidence=confidence)
        )
        if linkage.explain_too_few_users(n, confidence):
            (row,) = rows
            assert isinstance(row, SkippedRow)
            assert f"{n} users sent both in the last round" in row.reason
        else:
            top = rows[0]
            assert isinstance(top, AttackRow)
            assert top.baseline is not None
            assert top.ci_low > top.baseline
    assert linkage.explain_too_few_users(users, confidence)


def test_ties_are_scored_as_broken_at_random() -> None:
    users, sent = np.arange(40), np.zeros((40, 3))
    silent = ScriptedLinks(lambda view, last, candidates: np.zeros((len(last), len(candidates))))
    rows = run(bit_view((users, sent), (users, sent)), attack=silent)
    for name in ("linkage top-1", "linkage MRR"):
        assert rows[name].value == pytest.approx(rows[name].baseline)
    assert rows["candidates ruled out"].value == 0
    note = rows["linkage MRR"].note
    assert note.index("40.0 of the 40 possible") < note.index("by chance: 20.5")


def test_a_second_ranked_candidate_is_scored_by_its_rank() -> None:
    """The true candidate has the second highest score: rank 2, in a remaining set of two."""
    users = np.arange(30)
    sent = np.eye(30)

    def second(view: View, last: Any, candidates: Any) -> np.ndarray:
        whose = last.to_dense(np.arange(len(last))).argmax(axis=1)
        scores = np.zeros((len(whose), len(candidates)))
        scores[np.arange(len(whose)), whose] = 1.0
        scores[np.arange(len(whose)), (whose + 1) % 30] = 2.0
        return scores

    rows = run(bit_view((users, sent), (users, sent)), attack=ScriptedLinks(second))
    assert rows["linkage top-1"].value == 0
    assert rows["linkage MRR"].value == 0.5
    assert rows["candidates ruled out"].value == pytest.approx(1 - 2 / 30)


def test_only_users_of_both_rounds_are_linked() -> None:
    rng = np.random.default_rng(1)
    memoised = rng.integers(2, size=(40, 50))
    first, last = np.arange(0, 30), np.arange(20, 40)
    rows = run(bit_view((first, memoised[first]), (last, memoised[last])))
    assert rows["linkage top-1"].n == 10
    assert rows["linkage top-1"].baseline == pytest.approx(0.1)
    assert run(bit_view((first, memoised[first]), (np.arange(35, 40), memoised[35:]))) == {}


def test_hidden_messages_carry_no_sender() -> None:
    users = np.arange(5, 35)
    view = bit_view((users, np.eye(30)), (users, np.eye(30)))
    for vantage in (Vantage.SERVER, Vantage.SHUFFLED):
        hidden = linkage.remove_senders(view, vantage, 100, np.random.default_rng(0))
        assert hidden is not None
        last = hidden.view.rounds[-1]
        if vantage is Vantage.SERVER:
            assert list(last.uploads.users) == list(range(30))
            sent = last.uploads.components["bits"]
        else:
            assert last.uploads is None
            assert hidden.view.rounds[0].uploads is None
            sent = last.shuffled["bits"]
        whose = sent.to_dense(np.arange(30)).argmax(axis=1)
        assert (whose != np.arange(30)).any()
        assert np.array_equal(whose, hidden.true_sender_indices)


def test_a_single_round_and_split_reports_are_refused_in_a_sentence() -> None:
    once = bit_view((np.arange(3), np.eye(3)))
    assert "only one round" in ATTACK.refusal(once)
    target = FAMILIES["targets"].load_class("fmf-ldp")(rounds=2)
    transcript = target.run(DATA, np.random.default_rng(0)).transcript
    split = transcript.view(Vantage.SHUFFLED, np.random.default_rng(0))
    assert "a separate message" in ATTACK.refusal(split)
    linked = transcript.view(Vantage.SERVER)
    assert not ATTACK.refusal(linked)
    parties = replace(linked, public=replace(linked.public, n_silos=3))
    assert "come from parties" in ATTACK.refusal(parties)


@cache
def make_gradient_view() -> View:
    target = FAMILIES["targets"].load_class("fcf")(rounds=3)
    run = target.run(DATA, np.random.default_rng(0))
    return as_arrays(run.transcript.view(Vantage.SERVER))


def add_noise(times: float) -> View:
    """FCF's uploads plus normal noise of ``times`` the standard deviation of their entries."""
    rng = np.random.default_rng(5)
    rounds = []
    for one in make_gradient_view().rounds:
        part = one.uploads.components["gradient"]
        sent = part.to_dense(np.arange(len(part)))
        noise = times * sent.std() * rng.standard_normal(sent.shape)
        parts = {"gradient": Dense(sent + noise, part.kind, part.learning_rate)}
        rounds.append(replace(one, uploads=Uploads(one.uploads.users, parts)))
    return replace(make_gradient_view(), rounds=tuple(rounds))


@pytest.mark.parametrize("vantage", [SERVER, SHUFFLED])
def test_linkage_weakens_as_noise_grows(vantage: Vantage) -> None:
    found = [run(add_noise(times), vantage)["linkage top-1"] for times in (0.0, 3.0, 12.0)]
    assert found[0].ci_low > 0.95
    assert found[0].ci_low > found[1].ci_high
    assert found[1].ci_low > found[2].ci_high


def test_informative_components_are_weighted_and_others_ignored() -> None:
    """Two components are constant per user up to noise, ten are noise, over three rounds."""
    own = np.random.default_rng(0).standard_normal((2, 120, 20))

    def top_1(told: int, noise: int) -> float:
        rounds = []
        for seed in range(3):
            drawn = np.random.default_rng(seed)  # each component has the same noise in every call
            own_parts = {
                f"own {k}": own[k] + 1.5 * drawn.standard_normal(own[k].shape) for k in (0, 1)
            }
            parts = dict(list(own_parts.items())[:told])
            parts |= {f"noise {k}": drawn.standard_normal((120, 20)) for k in range(noise)}
            dense = {name: Dense(values, Payload.CHANGE, 1.0) for name, values in parts.items()}
            rounds.append(send(dense))
        return float(run(make_view(*rounds, users=120, items=7))["linkage top-1"].value)

    alone, both = top_1(1, 0), top_1(2, 0)
    assert both > alone + 0.2
    assert top_1(1, 10) > alone - 0.05
    assert top_1(2, 10) > both - 0.05
    assert top_1(0, 10) < 0.05
