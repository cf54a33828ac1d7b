"""Known profiles held against models: how well each fits, and whose messages a step sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.shadow_reader import anybody, taken_by_code
from fedrec_auditor.attacks.parts.uploads import (
    OF_THE_MODEL,
    blocks,
    item_table,
    last_model,
    part_of,
    similarities,
    user_table,
)
from fedrec_auditor.targets.transcript import Component, Kind, RoundView, View

# How well models fit whole profiles: what they tell of whether a known user was trained on.
#
# A model with a row v_i an item is read without knowing how it was trained. For a profile y (0 or 1
# of every item) the vector that fits it best by least squares is x = (V'V + c I)^-1 V'y. From it
# follow
#
# 1. the share of y that V explains, y'Vx / y'y;
# 2. the share of the profile's ratings that a vector fitted to them alone explains;
# 3. where the model has rows of users, the best cosine of y and what any of them predicts.
#
# Where similarities of items are published, it is the mean similarity within the profile. None of
# them is compared with a threshold: how each differs between members and others is learned from
# reference models. Source: least squares.

Floats = NDArray[np.float64]

_RIDGE = 0.01  # of the mean square of a row
_TINY = 1e-12
_NUMBERS = 2**22  # of one block of Gram matrices: 32 MiB


def reads(view: View) -> bool:
    """Whether the last model that is seen has a row an item, or similarities of items."""
    model, items = last_model(view), view.public.n_items
    return item_table(model, items) is not None or similarities(model, items) is not None


def fits(view: View, profiles: sparse.csr_array) -> Floats:
    """What the models of a view tell of ``profiles`` (n, M) of ratings: (n, f), f by the view.

    The view must be one that ``reads`` says it reads. Memory: some arrays of n times the users of
    the model, and 32 MiB.
    """
    model, items = last_model(view), view.public.n_items
    held = profiles.astype(np.bool_).astype(np.float64)
    table = item_table(model, items)
    if table is None:
        similarity = similarities(model, items)
        assert similarity is not None, "refused"
        pairs = np.asarray((held @ similarity).multiply(held).sum(axis=1)).ravel()
        return np.asarray(pairs / np.maximum(held.sum(axis=1), 1))[:, None]
    columns = [_explained(table, held), _rated(table, profiles)]
    users = user_table(model, table)
    if users is not None:
        columns.append(_nearest(table, users, held))
    return np.stack(columns, axis=1)


def _vectors(table: Floats, held: sparse.csr_array) -> Floats:
    """x of each profile: (n, d)."""
    gram = table.T @ table
    gram += (_RIDGE * np.trace(gram) / len(gram) + _TINY) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram, np.asarray(held @ table).T).T)


def _explained(table: Floats, held: sparse.csr_array) -> Floats:
    along = np.asarray(held @ table)
    share = np.einsum("nd,nd->n", along, _vectors(table, held))
    return np.asarray(share / np.maximum(held.sum(axis=1), 1))


def _rated(table: Floats, profiles: sparse.csr_array) -> Floats:
    n, width = profiles.shape[0], table.shape[1]
    squares = (table[:, :, None] * table[:, None, :]).reshape(len(table), -1)
    ridge = _RIDGE * float(np.mean(np.einsum("md,md->m", table, table))) + _TINY
    ratings = profiles.astype(np.float64)
    held = profiles.astype(np.bool_).astype(np.float64)
    counts = np.diff(profiles.indptr)
    along, explained = np.asarray(ratings @ table), np.zeros(n)
    step = max(1, _NUMBERS // width**2)
    for start in range(0, n, step):
        some = slice(start, start + step)
        gram = np.asarray(held[some] @ squares).reshape(-1, width, width)
        gram += (ridge * np.maximum(counts[some], 1))[:, None, None] * np.eye(width)
        vectors = np.linalg.solve(gram, along[some][:, :, None])[:, :, 0]
        explained[some] = np.einsum("nd,nd->n", vectors, along[some])
    squared = np.asarray(ratings.multiply(ratings).sum(axis=1))
    return np.asarray(explained / np.maximum(squared, _TINY))


def _nearest(table: Floats, users: Floats, held: sparse.csr_array) -> Floats:
    """Largest cosine of a profile and what a row of users predicts of all items."""
    gram = table.T @ table
    lengths = np.sqrt(np.maximum(np.einsum("nd,de,ne->n", users, gram, users), _TINY))
    scores = np.asarray(held @ table) @ (users / lengths[:, None]).T
    return np.asarray(scores.max(axis=1) / np.sqrt(np.maximum(held.sum(axis=1), 1)))


# Senders whose messages a step of the model sums, by least squares over known profiles.
#
# A device without randomness sends a function of its profile and of the broadcast, which anybody
# can compute who has its code. A sum of such messages is then linear in who took part, and so is
# the next model of a server that adds them up: step = c sum_u in_u g_u + a V + m (V - the model
# before), with a scale c, a decay a and a momentum m that need not be known. Of more entries than
# users, in_u is what solves them. Users whose profile is not known are noise.
#
# Rounds are added until what was solved so far explains the next one. Where single rounds are
# solved, but by other users each, a share of the users takes turns, and whoever is in some round is
# in. Source: least squares, derived here.


NUMBERS = 2**25
"""Numbers of the equations of a round: 256 MiB."""
PROFILES = 4096
"""Profiles of which there are two equations each in so many numbers."""
SECONDS = 10.0
"""What messages of all profiles in a round may take, as the devices' code says what one takes."""
_FEW, _MOST = 2, 20  # rounds, the first ones: messages later on are alike
_EXPLAINED = 1e-4  # of a step's square are left
_TRIED = 8  # made-up histories whose messages are sent twice
_SOLVE_RIDGE = 1e-10
_ROUNDED = 1e-6  # of the largest number: adding up in another order is no randomness
_MEMO = "exact messages"


def solves(view: View, profiles: int = 1) -> bool:
    """Whether sums of messages of the devices' code are seen, and these draw nothing at random."""
    public = view.public
    if public.client is None or public.rows is not None or public.parties is not None:
        return False
    if profiles > PROFILES or profiles * public.client.seconds > SECONDS:
        return False
    if _MEMO not in view.memo:
        view.memo[_MEMO] = _exact(view)
    return bool(view.memo[_MEMO])


def _exact(view: View) -> bool:
    place = next(_steps(view), None)
    if place is None:
        return False
    client = view.public.client
    assert client is not None, "asked by solves"
    met = anybody(_TRIED, view.public.n_items, client.sizes, np.random.default_rng(0))

    def twice(some: NDArray[np.intp]) -> list[dict[str, Component]]:
        histories = sparse.csr_array(met[some].astype(np.float32))
        return [_sent(view, place, histories, seed) for seed in (1, 2)]

    try:
        taken, (one, two), _ = taken_by_code(met, twice, 1)
    except InputError:
        return False
    every = np.arange(len(taken))
    pairs = [(part.dense(every), two[name].dense(every)) for name, part in one.items()]
    return bool(_known(view, place, one)) and all(
        np.allclose(first, second, rtol=0, atol=_ROUNDED * float(np.abs(first).max(initial=0)))
        for first, second in pairs
    )


def shares(view: View, profiles: sparse.csr_array) -> Floats:
    """How far each of ``profiles`` (n, M) is in the sums, in units of the server's step: (n,).

    The view must be one that it ``solves``. Memory: 256 MiB of equations, 8 MiB of messages, and
    three tables of n x n numbers (384 MiB for 4,096 profiles).
    """
    n = profiles.shape[0]
    gram, right, pooled = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    alone: list[Floats] = []
    equations, turns = 0, True
    for place in _steps(view):
        columns, step = _equations(view, place, profiles)
        size = float(step @ step)
        if not 0 < size < np.inf:  # nothing moved, or what has broken down
            continue
        if alone and _left(columns, step, pooled) < _EXPLAINED:
            turns = False
            break
        square, towards = columns.T @ columns, columns.T @ step
        if not np.isfinite(square).all():
            continue
        alone.append(_solved(square, towards))
        square /= size
        gram += square
        right += towards / size
        equations += len(step)
        pooled = alone[0] if len(alone) == 1 else _solved(gram, right)
        free = max(0, len(step) - n) / len(step)
        turns = turns and _left(columns, step, alone[-1]) < _EXPLAINED * free
        enough = not turns and len(alone) >= _FEW and equations >= 3 * n
        if enough or len(alone) == _MOST:
            break
    return np.max(alone, axis=0) if turns and len(alone) > 1 else pooled


def _solved(gram: Floats, right: Floats) -> Floats:
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0, scale, 1.0)
    damped = gram / scale
    damped /= scale[:, None]
    damped[np.diag_indices_from(damped)] += _SOLVE_RIDGE * len(damped)
    found = linalg.solve(damped.T, right / scale, assume_a="pos", overwrite_a=True)
    return np.asarray(found) / scale


def _left(columns: Floats, step: Floats, shares: Floats) -> float:
    """The share of a step's square that these do not explain."""
    rest = step - columns @ shares
    return float(rest @ rest / (step @ step))


def _steps(view: View) -> Iterator[int]:
    """Rounds whose sum is seen, or what the model did next."""
    for place, seen in enumerate(view.rounds):
        if seen.shuffled or seen.aggregate or (seen.broadcast and view.rounds[place + 1 :]):
            yield place


def _sent(view: View, place: int, profiles: sparse.csr_array, seed: int) -> dict[str, Component]:
    client = view.public.client
    assert client is not None, "it does not solve this view"
    rng = np.random.default_rng(seed)
    return dict(client(profiles, view.rounds[place].broadcast, rng).components)


def _known(
    view: View, place: int, sent: dict[str, Component]
) -> dict[str, tuple[Floats, tuple[Floats, ...]]]:
    """By name of a component, the sum or step that is seen of it, and what else may be in it."""
    seen, found = view.rounds[place], {}
    if seen.shuffled or seen.aggregate:
        sums = seen.aggregate or {n: part.total() for n, part in (seen.shuffled or {}).items()}
        return {
            name: (np.asarray(sums[name], np.float64), ())
            for name, part in sent.items()
            if name in sums and sums[name].shape == part.shape
        }
    models: Sequence[RoundView] = view.rounds[max(0, place - 1) : place + 2]
    for name, part in sent.items():
        key = part_of(name, part.shape, seen.broadcast)
        if key is None or part.kind not in OF_THE_MODEL:
            continue
        tables = [np.asarray((each.broadcast or {}).get(key, 0.0), np.float64) for each in models]
        if all(table.shape == part.shape for table in tables):
            *before, base, after = tables
            found[name] = after - base, (base, *(base - each for each in before))
    return found


def _equations(view: View, place: int, profiles: sparse.csr_array) -> tuple[Floats, Floats]:
    """Columns (m, n) of messages, and the step (m,), both without what else may be in a step."""
    n = profiles.shape[0]
    sent = _sent(view, place, profiles, 0)
    known = _known(view, place, sent)
    whole = sum(step.size for step, _ in known.values())
    chosen = np.zeros(whole, np.bool_)
    chosen[np.random.default_rng(0).permutation(whole)[: NUMBERS // max(1, n)]] = True
    columns, steps = np.empty((n, np.count_nonzero(chosen))), np.empty(np.count_nonzero(chosen))
    first = passed = 0
    for name, (step, others) in known.items():
        mine = np.flatnonzero(chosen[passed : passed + step.size])
        here = slice(first, first + len(mine))
        first, passed = here.stop, passed + step.size
        beside = np.stack([each.ravel()[mine] for each in others], axis=1) if others else None
        base = beside[:, 0] if beside is not None and sent[name].kind is Kind.MODEL else 0.0
        basis = np.zeros((len(mine), 0)) if beside is None else np.linalg.qr(beside)[0]

        def alone(moved: Floats, basis: Floats = basis) -> Floats:
            return np.asarray(moved - (moved @ basis) @ basis.T)

        steps[here] = alone(step.ravel()[mine])
        for some, dense in blocks(sent[name]):
            columns[some, here] = alone(dense.reshape(len(dense), -1)[:, mine] - base)
    return columns.T, steps
