"""Features that show whether a known user profile (ratings) was in the training data of a model.

Several features say how well models fit the profile. One feature says how much the profile
contributes to a sum of messages. User-level membership inference compares these features with those
of reference trainings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.parts.shadow_reader import draw_histories, run_on_accepted
from fedrec_auditor.targets.transcript import Component, Payload, RoundView, View

# Fit of models to whole profiles, which reveals whether a known user was in the training.
#
# A model with one row v_i per item can be compared without knowing how it was trained. For a
# profile y (0 or 1 for every item) the best vector by least squares is
# x = (V'V + c I)^-1 V'y. From it follow
#
# 1. the share of y that V explains, y'Vx / y'y;
# 2. the share of the profile's ratings that a vector fitted to them alone explains;
# 3. if the model has rows of users, the best cosine of y and the prediction of any row.
#
# If similarities of items are published instead, the feature is the mean similarity within the
# profile. No feature is compared with a threshold: the differences between members and non-members
# are learned from reference models. Source: least squares.

Floats = NDArray[np.float64]

_RIDGE = 0.01  # multiple of the mean square of a row
_TINY = 1e-12
_NUMBERS = 2**22  # size of one block of Gram matrices: 32 MiB


def has_readable_model(view: View) -> bool:
    """Checks whether the last model that the adversary sees has item rows or item similarities."""
    model, items = uploads.get_last_model(view), view.public.n_items
    table = uploads.find_item_table(model, items)
    return table is not None or uploads.find_item_similarities(model, items) is not None


def measure_profile_fit(view: View, profiles: sparse.csr_array) -> Floats:
    """Returns f features per user, (n, f), that show how well a model fits the user's ratings.

    view: messages, models and public parameters that the adversary sees; its last model is used
    profiles: ratings of n users (n, M)

    The number of features depends on the model:

    - one row per item: two features;
    - one row per item, and rows of users: three features;
    - similarities of items: one feature.

    ``has_readable_model`` must accept the view.
    """
    # Memory: some arrays of shape (n, number of users in the model), and 32 MiB.
    model, items = uploads.get_last_model(view), view.public.n_items
    binary = profiles.astype(np.bool_).astype(np.float64)
    table = uploads.find_item_table(model, items)
    if table is None:
        similarity = uploads.find_item_similarities(model, items)
        assert similarity is not None, "refused"
        pairs = np.asarray((binary @ similarity).multiply(binary).sum(axis=1)).ravel()
        return np.asarray(pairs / np.maximum(binary.sum(axis=1), 1))[:, None]
    columns = [_explained_share(table, binary), _rating_share(table, profiles)]
    users = uploads.find_user_table(model, table)
    if users is not None:
        columns.append(_largest_cosine(table, users, binary))
    return np.stack(columns, axis=1)


def _fit_vectors(table: Floats, binary: sparse.csr_array) -> Floats:
    """Returns the user vectors (n, d) that fit users' interactions best, by ridge regression.

    ``table`` is the item table (M, d), ``binary`` the interactions (n, M).
    """
    gram = table.T @ table
    gram += (_RIDGE * np.trace(gram) / len(gram) + _TINY) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram, np.asarray(binary @ table).T).T)


def _explained_share(table: Floats, binary: sparse.csr_array) -> Floats:
    share = np.einsum("nd,nd->n", np.asarray(binary @ table), _fit_vectors(table, binary))
    return np.asarray(share / np.maximum(binary.sum(axis=1), 1))


def _rating_share(table: Floats, profiles: sparse.csr_array) -> Floats:
    n, width = profiles.shape[0], table.shape[1]
    squares = (table[:, :, None] * table[:, None, :]).reshape(len(table), -1)
    ridge = _RIDGE * float(np.mean(np.einsum("md,md->m", table, table))) + _TINY
    ratings = profiles.astype(np.float64)
    binary = profiles.astype(np.bool_).astype(np.float64)
    counts = np.diff(profiles.indptr)
    along, explained = np.asarray(ratings @ table), np.zeros(n)
    step = max(1, _NUMBERS // width**2)
    for start in range(0, n, step):
        some = slice(start, start + step)
        gram = np.asarray(binary[some] @ squares).reshape(-1, width, width)
        gram += (ridge * np.maximum(counts[some], 1))[:, None, None] * np.eye(width)
        vectors = np.linalg.solve(gram, along[some][:, :, None])[:, :, 0]
        explained[some] = np.einsum("nd,nd->n", vectors, along[some])
    squared = np.asarray(ratings.multiply(ratings).sum(axis=1))
    return np.asarray(explained / np.maximum(squared, _TINY))


def _largest_cosine(table: Floats, users: Floats, binary: sparse.csr_array) -> Floats:
    """Returns each user's largest cosine with the scores that a row of the user table predicts.

    table, users: the model's tables of items (M, d) and of users
    binary: interactions of the n users (n, M)

    The cosine is between the interactions and the scores for all items. The result is (n,).
    """
    gram = table.T @ table
    lengths = np.sqrt(np.maximum(np.einsum("nd,de,ne->n", users, gram, users), _TINY))
    scores = np.asarray(binary @ table) @ (users / lengths[:, None]).T
    return np.asarray(scores.max(axis=1) / np.sqrt(np.maximum(binary.sum(axis=1), 1)))


# Senders of a summed step of the model, by least squares over known profiles.
#
# A device without randomness sends a function of its profile and of the broadcast, which anybody
# with its code can compute. A sum of such messages is then linear in the participation in_u of the
# users, and so is the next model of a server that adds them up: step = c sum_u in_u g_u + a V +
# m (V - previous model), with unknown scale c, decay a and momentum m. With more entries than
# users, these equations determine in_u. Users with unknown profiles act as noise.
#
# Rounds are added until the solution explains the next round. If single rounds have a solution,
# but with different users, some of the users take turns, and a user in any round is a member.
# Source: least squares, derived here.


# Maximum number of coefficients of the equations of a round: 256 MiB.
MAX_EQUATION_COEFFICIENTS = 2**25
# Maximum number of profiles, with two equations per profile within ``MAX_EQUATION_COEFFICIENTS``.
MAX_PROFILES = 4096
# Time limit, in seconds, for computing one round's messages of all profiles, as estimated.
MAX_EMULATION_SECONDS = 10.0
_FEW, _MAX_ROUNDS = 2, 20  # minimum and maximum number of first rounds; later rounds are similar
_EXPLAINED = 1e-4  # largest share of a step's sum of squares that a solution may leave unexplained
_TRIED = 8  # number of simulated histories whose messages are computed twice
_SOLVE_RIDGE = 1e-10
_ROUNDED = 1e-6  # share of the largest number, below which a difference is a rounding error
_MEMO = "exact messages"


def can_infer_participation(view: View, n_profiles: int = 1) -> bool:
    """Checks whether ``infer_participation`` can infer which users' messages are in observed sums.

    The code that computes the messages must be known, and must not be random. Computing one round's
    messages of ``n_profiles`` users must not take too long.
    """
    public = view.public
    is_split = public.item_rows is not None or public.n_silos is not None
    if is_split or max(1, n_profiles) > count_max_profiles(view):
        return False
    if _MEMO not in view.cache:
        view.cache[_MEMO] = _is_exact(view)
    return bool(view.cache[_MEMO])


def count_max_profiles(view: View) -> int:
    """Returns the largest number of users whose messages the known code computes fast enough."""
    seconds = max(1e-9, getattr(view.public.device_code, "call_seconds", np.inf))
    return int(min(MAX_PROFILES, MAX_EMULATION_SECONDS / seconds))


def _is_exact(view: View) -> bool:
    place = next(_iter_rounds(view), None)
    if place is None:
        return False
    client = view.public.device_code
    assert client is not None, "checked by can_infer_participation"
    rng = np.random.default_rng(0)
    met = draw_histories(_TRIED, view.public.n_items, client.n_items_range, rng)

    # Messages of the simulated users ``some``, computed with two different seeds.
    def twice(some: NDArray[np.intp]) -> list[dict[str, Component]]:
        histories = sparse.csr_array(met[some].astype(np.float32))
        return [_emulate(view, place, histories, seed) for seed in (1, 2)]

    try:
        taken, (one, two), _ = run_on_accepted(met, twice, 1)
    except InputError:
        return False
    every = np.arange(len(taken))
    pairs = [(part.to_dense(every), two[name].to_dense(every)) for name, part in one.items()]
    return bool(_find_steps(view, place, one)) and all(
        np.allclose(first, second, rtol=0, atol=_ROUNDED * float(np.abs(first).max(initial=0)))
        for first, second in pairs
    )


def infer_participation(view: View, profiles: sparse.csr_array) -> Floats:
    """Estimates the share of each user's message in the observed sums of messages, (n,).

    view: messages, models and public parameters that the adversary sees
    profiles: ratings of n users (n, M)

    The share is about 0 for users who did not take part, and about the server's step size for users
    who did. ``can_infer_participation`` must accept the view.
    """
    # Memory: 256 MiB of equations, 8 MiB of messages, and three tables of n x n numbers (384 MiB
    # for 4,096 profiles).
    n = profiles.shape[0]
    gram, right, pooled = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    alone: list[Floats] = []
    equations, turns = 0, True
    for place in _iter_rounds(view):
        columns, step = _make_equations(view, place, profiles)
        size = float(step @ step)
        if not 0 < size < np.inf:  # nothing moved, or the training has broken down
            continue
        if alone and _unexplained_share(columns, step, pooled) < _EXPLAINED:
            turns = False
            break
        square, towards = columns.T @ columns, columns.T @ step
        if not np.isfinite(square).all():
            continue
        alone.append(_solve(square, towards))
        square /= size
        gram += square
        right += towards / size
        equations += len(step)
        pooled = alone[0] if len(alone) == 1 else _solve(gram, right)
        free = max(0, len(step) - n) / len(step)
        turns = turns and _unexplained_share(columns, step, alone[-1]) < _EXPLAINED * free
        enough = not turns and len(alone) >= _FEW and equations >= 3 * n
        if enough or len(alone) == _MAX_ROUNDS:
            break
    return np.max(alone, axis=0) if turns and len(alone) > 1 else pooled


def _solve(gram: Floats, right: Floats) -> Floats:
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0, scale, 1.0)
    damped = gram / scale
    damped /= scale[:, None]
    damped[np.diag_indices_from(damped)] += _SOLVE_RIDGE * len(damped)
    found = linalg.solve(damped.T, right / scale, assume_a="pos", overwrite_a=True)
    return np.asarray(found) / scale


def _unexplained_share(columns: Floats, step: Floats, shares: Floats) -> float:
    """Returns the share of the sum of squares of ``step`` that a solution does not explain.

    The solution is ``shares`` (n,), the participation of n users; ``columns`` (m, n) times
    ``shares`` predicts ``step`` (m,).
    """
    rest = step - columns @ shares
    return float(rest @ rest / (step @ step))


def _iter_rounds(view: View) -> Iterator[int]:
    """Yields indices of rounds of which an adversary sees the sum of messages or the next model."""
    for place, seen in enumerate(view.rounds):
        if seen.shuffled or seen.aggregate or (seen.broadcast and view.rounds[place + 1 :]):
            yield place


def _emulate(view: View, place: int, profiles: sparse.csr_array, seed: int) -> dict[str, Component]:
    client = view.public.device_code
    assert client is not None, "checked by can_infer_participation"
    rng = np.random.default_rng(seed)
    return dict(client(profiles, view.rounds[place].broadcast, rng).components)


def _find_steps(
    view: View, place: int, sent: dict[str, Component]
) -> dict[str, tuple[Floats, tuple[Floats, ...]]]:
    """Returns the sum of messages, or the change of the model, in a round, by component.

    view, place: the adversary's view, and the index of the round
    sent: simulated messages, which give the names and shapes of components

    Each value is a pair: the sum or change, and other terms that the change may contain. These are
    the model itself, from weight decay, and its previous change, from momentum.
    """
    seen, steps = view.rounds[place], {}
    if seen.shuffled or seen.aggregate:
        sums = seen.aggregate or {n: part.sum_all() for n, part in (seen.shuffled or {}).items()}
        return {
            name: (np.asarray(sums[name], np.float64), ())
            for name, part in sent.items()
            if name in sums and sums[name].shape == part.shape
        }
    models: Sequence[RoundView] = view.rounds[max(0, place - 1) : place + 2]
    for name, part in sent.items():
        key = uploads.find_broadcast_part_name(name, part.shape, seen.broadcast)
        if key is None or part.kind not in uploads.MODEL_KINDS:
            continue
        tables = [np.asarray((each.broadcast or {}).get(key, 0.0), np.float64) for each in models]
        if all(table.shape == part.shape for table in tables):
            *before, base, after = tables
            steps[name] = after - base, (base, *(base - each for each in before))
    return steps


def _make_equations(view: View, place: int, profiles: sparse.csr_array) -> tuple[Floats, Floats]:
    """Returns linear equations for the participation of n users in one round.

    The coefficients (m, n) are the messages that the users' ratings (``profiles``) give. The right
    side (m,) is the observed sum of messages or change of the model. Other terms of the change
    (``_find_steps``) are projected off.
    """
    n = profiles.shape[0]
    sent = _emulate(view, place, profiles, 0)
    known = _find_steps(view, place, sent)
    whole = sum(step.size for step, _ in known.values())
    chosen = np.zeros(whole, np.bool_)
    limit = MAX_EQUATION_COEFFICIENTS // max(1, n)
    chosen[np.random.default_rng(0).permutation(whole)[:limit]] = True
    columns, steps = np.empty((n, np.count_nonzero(chosen))), np.empty(np.count_nonzero(chosen))
    first = passed = 0
    for name, (step, others) in known.items():
        entries = np.flatnonzero(chosen[passed : passed + step.size])
        here = slice(first, first + len(entries))
        first, passed = here.stop, passed + step.size
        beside = np.stack([each.ravel()[entries] for each in others], axis=1) if others else None
        base = beside[:, 0] if beside is not None and sent[name].kind is Payload.MODEL else 0.0
        basis = np.zeros((len(entries), 0)) if beside is None else np.linalg.qr(beside)[0]

        # Removes from each row the part in the span of the model and its previous change.
        def alone(moved: Floats, basis: Floats = basis) -> Floats:
            return np.asarray(moved - (moved @ basis) @ basis.T)

        steps[here] = alone(step.ravel()[entries])
        for some, dense in uploads.iter_message_blocks(sent[name]):
            columns[some, here] = alone(dense.reshape(len(dense), -1)[:, entries] - base)
    return columns.T, steps
