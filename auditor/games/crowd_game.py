"""Games with a canary (a designed user) in a small crowd of other users, in one round or in a whole
training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.attacks.base import Attack, Background, MemberScores
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import canary_game, projection, stated
from fedrec_auditor.auditor.games import round as rounds
from fedrec_auditor.auditor.games.canary import CanarySet
from fedrec_auditor.auditor.games.canary_game import CanaryGame, GameInputs, GameSetup, Skip
from fedrec_auditor.auditor.games.stated import can_absent_user_send, has_presence_claim
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population, Target
from fedrec_auditor.targets.transcript import Broadcast, Transcript, View

# Maximum rounds of a training in a game. Longer trainings, and their claims, are shortened.
MAX_GAME_ROUNDS = 20
# Start of the description of a malicious broadcast.
MALICIOUS_SERVER_TEXT = " after the server sent a malicious model, which"
# Description of the adversary's score in the training game, for reports.
TRAINING_SCORE_TEXT = (
    "the messages of every round minus their expected value, projected on the mean difference "
    "between the canary's messages with the two inputs, and weighted by logistic regression"
)
_LIMIT = 1e3  # an attack's score is clipped to [-_LIMIT, _LIMIT]
_COPIES = 4  # messages of the canary per round, from which their mean is estimated
_N_COMPARED = 32  # messages of each canary whose means are compared to find the best canary


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSimulator:
    """Simulates trainings in two worlds (neighbouring inputs) that differ in the history of a
    canary (designed user).

    ``target``: the system.
    ``canary``: the canary, which is the last user, and all other users.
    ``vantages``: adversaries, each given by what it sees.
    ``attack``: attack whose log-odds of the first history are the adversary's only feature; None
        for ``projection.compute_features``.
    ``machine``: device and memory of a training.
    ``n_standalone_features``: 0, because no feature serves alone as a score.
    """

    target: Target
    canary: CanarySet
    vantages: tuple[Vantage, ...]
    attack: Attack | None = None
    machine: Machine = DEFAULT_MACHINE
    n_standalone_features: ClassVar[int] = 0

    @property
    def n_messages(self) -> int:
        """Number of messages that one run computes.

        Each round has two messages of each other user, and four messages for each of the two
        histories of the canary (designed user).
        """
        # A user's second message serves to estimate the expected messages.
        return (self.target.sizes.rounds or 1) * 2 * (self.canary.other_users.n_users + _COPIES)

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> canary_game.Features:
        """Simulates ``size`` trainings of a world (neighbouring input 0 or 1).

        Returns features (``size``, f), which are numbers that the adversary computes from the
        messages of a training, by vantage (name of the adversary who sees these messages).
        """
        runs = [self._simulate(world, np.random.default_rng(each)) for each in seed.spawn(size)]
        return {str(v): np.stack([run[v] for run in runs]) for v in self.vantages}

    def _simulate(self, world: int, rng: np.random.Generator) -> dict[Vantage, projection.Array]:
        training, seeing, guessing = rng.spawn(3)
        data, crowd = self.canary.make_data_set(np.array([world == 0])), self.canary.other_users
        transcript = self.target.run(data, training, None, self.machine).transcript
        others = select_users_to_predict(crowd, self.vantages, transcript)
        known: dict[int, projection.ExpectedMessages] = {}
        features = {}
        for vantage in self.vantages:
            view = transcript.view(vantage, seeing)
            if self.attack is not None:
                features[vantage] = self._score(self.attack, view, guessing)
                continue
            last = len(view.rounds) - (vantage is Vantage.PEERS)
            times = [-1] if vantage is Vantage.RELEASE else [*range(last)]
            for t in times:
                if t not in known:
                    broadcast, profiles = view.rounds[t].broadcast, self.canary.histories
                    known[t] = projection.estimate_messages(
                        self.target, profiles, broadcast, guessing, _COPIES, others
                    )
            at_times = [known[t] for t in times]
            features[vantage] = projection.compute_features(view, at_times, data.n_users - 1)
        return features

    def _score(self, attack: Attack, view: View, rng: np.random.Generator) -> projection.Array:
        """The attack's log-odds that the canary has the first history rather than the second, shape
        (1,).
        """
        first, second = self.canary.histories.ratings.toarray()
        items = np.flatnonzero(first != second)
        users = np.full(len(items), self.canary.other_users.n_users)
        background = Background(candidate_pairs=np.stack([users, items], axis=1))
        guess = attack.infer(view, background, rng)
        assert isinstance(guess, MemberScores)
        signs = np.sign(first[items] - second[items])
        return np.array([signs @ np.clip(guess.values, -_LIMIT, _LIMIT)])


def select_users_to_predict(
    crowd: Interactions, vantages: Sequence[Vantage], transcript: Transcript
) -> Interactions:
    """Returns the users other than the canary (a designed user) whose messages an adversary
    predicts.

    The adversary subtracts predicted messages from sums, to isolate the canary's message.

    ``crowd``: all users except the canary.
    ``vantages``: adversaries, each given by what it sees.
    ``transcript``: messages and broadcasts of a training.

    The result is ``crowd``. It is empty if the server is the only adversary and each message is
    linked to one user.
    """
    linked = tuple(vantages) == (Vantage.SERVER,) and transcript.public.n_silos is None
    return crowd.take_users(np.arange(0)) if linked else crowd


def limit_rounds(target: Target, quick: bool) -> Target:
    """Returns ``target`` with at most ``MAX_GAME_ROUNDS`` rounds of training, or a quarter of this
    number if ``quick``.
    """
    return target.limit_rounds(MAX_GAME_ROUNDS // 4 if quick else MAX_GAME_ROUNDS)


def run_round(
    target: Target,
    population: Interactions,
    rng: np.random.Generator,
    compute: Machine = DEFAULT_MACHINE,
) -> Transcript:
    """Runs one round of training with an honest server, and returns the transcript (all messages
    and broadcasts).
    """
    return target.limit_rounds(1).run(population, rng, None, compute).transcript


def run_with_canary(
    target: Target, population: Interactions, rng: np.random.Generator, compute: Machine
) -> tuple[Interactions, Transcript]:
    """Adds a canary (designed user) to ``population`` and runs one round of training with an honest
    server.

    The canary has no items. If the client's code fails at an empty history, the canary has the
    items of the first user.

    Returns the population with the canary, and all messages of the round. Raises InputError if the
    code fails at both histories, or at the empty history if ``population`` has no users.
    """
    nothing = canaries.add_user(population, np.zeros(population.n_items, np.float32))
    try:
        return nothing, run_round(target, nothing, rng, compute)
    except InputError:
        if not population.n_users:
            raise
    one = population.ratings[[0]].toarray()[0].astype(np.float32)
    somebody = canaries.add_user(population, one)
    return somebody, run_round(target, somebody, rng, compute)


def get_first_broadcast(transcript: Transcript) -> Broadcast | None:
    """Returns the server's broadcast in the first round of a transcript, or None without one."""
    return transcript.rounds[0].broadcast if transcript.rounds else None


def find_best_canary(
    target: Target,
    population: Interactions,
    scope: Scope,
    broadcasts: Sequence[Broadcast | None],
    rng: np.random.Generator,
) -> tuple[CanarySet, int, str] | None:
    """Finds the canary (designed user) and the broadcast for which the mean messages of the
    canary's two histories differ most.

    ``scope``: protected unit and adjacency of the bound.
    ``broadcasts``: broadcasts at which every canary is tried.

    Returns the canary, the index of the broadcast, and a text on canaries that the client refuses.
    Returns None if no canary changes the mean message.
    """
    best, largest = None, 0.0

    def measure_gaps(canary: CanarySet) -> list[float]:
        """Squared distance between a canary's mean messages for its two histories, one number
        per broadcast.
        """
        squares = []
        for broadcast in broadcasts:
            sent = target, canary.histories, broadcast
            first, second = (
                projection.estimate_messages(*sent, rng, _N_COMPARED).world_gap for _ in range(2)
            )
            # The product of two independent estimates is unbiased; the square of one is not.
            squares.append(projection.sum_products((first[name], second[name]) for name in first))
        return squares

    designed = canaries.design_extreme_canaries(scope, population)
    every, refused = canaries.map_canaries(designed, measure_gaps)
    left_out = canaries.describe_refusals(refused, every)
    for canary, squares in every:
        for number, square in enumerate(squares):
            if square > largest * (1 + 1e-9):
                best, largest = (canary, number, left_out), square
    return best


def make_altered_broadcasts(broadcast: Broadcast | None) -> dict[str, Broadcast | None]:
    """Returns the honest ``broadcast``, and malicious copies of it with one array set to 0.

    The keys are descriptions for reports; the key of the honest broadcast is empty.
    """
    sent: dict[str, Broadcast | None] = {"": broadcast}
    for name, part in get_float_arrays(broadcast or {}).items():
        text = f"{MALICIOUS_SERVER_TEXT} sets the array “{name}” to 0"
        sent[text] = {**(broadcast or {}), name: np.zeros_like(part)}
    return sent


def get_float_arrays(broadcast: Broadcast) -> dict[str, NDArray[Any]]:
    """Returns the arrays of floats in a broadcast, which a malicious server may change."""
    return {
        name: np.asarray(part)
        for name, part in broadcast.items()
        if np.ndim(part) and np.issubdtype(np.asarray(part).dtype, np.floating)
    }


class CrowdGame(CanaryGame):
    """Base of the games in which a canary (designed user) takes part together with a few users.

    These are users of the data with many ratings. An experiment simulates one round or a training
    with each of two histories of the canary. Its adversaries have the vantages (what they see) of
    the system's claims.

    ``can_use_attack``: true, because an attack may take the place of the adversary's score.
    """

    can_use_attack = True

    def limit_rounds(self, target: Target, quick: bool) -> Target:
        """Returns the system ``target``, shortened to one round of training."""
        return target.limit_rounds(1)

    def can_fix_broadcast(self, target: Target) -> bool:
        """Whether a bound for ``target`` may be measured on uploads at one fixed broadcast, without
        simulating the server. True for one round.
        """
        return True

    def make_setups(self, case: GameInputs, rng: np.random.Generator) -> Iterator[GameSetup | Skip]:
        """Yields the experiments of the game, each with two worlds (neighbouring inputs) to
        simulate.

        One ``GameSetup`` serves all scopes (unit, adjacency, what the adversary sees) with the same
        canary (designed user). A ``Skip`` has scopes without an experiment, and the reason.

        ``case``: the system under audit, its data, and options.
        ``rng``: random generator for the search of the canary.

        Raises InputError if the attack of ``case`` can read nothing that the claims' adversaries
        see.
        """
        target, by = case.target, case.attack
        data, (n_users, n_items) = case.interactions, case.population_shape
        n_users = stated.choose_n_users(target, n_users, data.n_users)
        population = canaries.shrink_data(data, n_users, n_items, target.n_required_items)
        sizes = canaries.count_population(population, 1)
        _, opening = run_with_canary(target, population, rng, case.machine)
        broadcast, parties = get_first_broadcast(opening), opening.public.n_silos is not None
        limited = self.limit_rounds(target, case.is_quick)
        all_deltas = self.get_deltas_by_scope(limited.get_claims(sizes))
        if by is not None:
            every, all_deltas = all_deltas, _select_readable(by, opening, all_deltas, rng)
            if unread := tuple(scope for scope in every if scope not in all_deltas):
                yield Skip(scopes=unread, reason="the attack reads nothing from this vantage")
        else:
            for setup in self.design_setups(case, all_deltas, rng):
                all_deltas = {s: d for s, d in all_deltas.items() if s not in setup.deltas_by_scope}
                yield setup

        def to_key(scope: Scope) -> tuple[str, str, bool, bool]:
            """Key that is equal for scopes which share an experiment."""
            # A party with a single user is another system: it draws its only row in every step.
            of_uploads = self.can_fix_broadcast(target) and not parties and by is None
            if scope.vantage is not Vantage.SERVER or any(all_deltas[scope]):
                of_uploads = of_uploads and not stated.has_user_sampling(target)
            of_uploads = of_uploads and scope.vantage in rounds.UPLOAD_VANTAGES
            hiding = has_presence_claim(target, scope)
            return str(scope.unit), str(scope.adjacency), of_uploads, hiding

        for (_, _, of_uploads, _), group in groupby(sorted(all_deltas, key=to_key), key=to_key):
            scopes = {scope: all_deltas[scope] for scope in group}
            yield self._make_setup(case, population, broadcast, scopes, of_uploads, rng)

    def _make_setup(
        self,
        case: GameInputs,
        population: Interactions,
        broadcast: Broadcast | None,
        scopes: Mapping[Scope, tuple[float, ...]],
        of_uploads: bool,
        rng: np.random.Generator,
    ) -> GameSetup | Skip:
        """Makes the experiment with the canary that is easiest to distinguish, or the reason why
        there is none.

        ``scopes``: deltas of the bounds, by scope. All scopes need the same canary.
        ``of_uploads``: whether a run draws uploads at a fixed broadcast; if false, a run is a
            training.
        """
        target, by = case.target, case.attack
        short = self.limit_rounds(target, case.is_quick)
        sizes = canaries.count_population(population, 1)
        scope, sent = next(iter(scopes)), {"": broadcast}
        if of_uploads and target.has_independent_rounds:
            sent = make_altered_broadcasts(broadcast)
        halved = any(can_absent_user_send(target, population, scope, s, rng) for s in sent.values())
        if halved:
            scope = replace(scope, adjacency=Adjacency.REPLACE)
        choice = find_best_canary(short, population, scope, tuple(sent.values()), rng)
        if choice is None:
            return Skip(scopes=tuple(scopes), reason=canary_game.NO_CHANGE_TEXT)
        canary, number, left_out = choice
        steered_by, chosen = tuple(sent.items())[number]
        vantages, length = canary_game.list_vantages(scopes), short.sizes.rounds or 1
        if of_uploads:
            statistic = rounds.ROUND_SCORE_TEXT
            runs: canary_game.Simulation = rounds.RoundSimulator.learn(
                short, canary, chosen, vantages, rng, length
            )
        else:
            statistic = f"the score of an attack: {by.reference}" if by else TRAINING_SCORE_TEXT
            runs = TrainingSimulator(
                target=short, canary=canary, vantages=vantages, attack=by, machine=case.machine
            )
        run_text = "one round" if self.horizon is Horizon.ROUND else f"trainings of {length} rounds"
        return GameSetup(
            target=short,
            population=sizes,
            world_names=canary.history_names,
            deltas_by_scope=scopes,
            simulation=runs,
            is_two_removals_apart=halved,
            run_description=(
                f"{run_text} of {population.n_users} users and "
                f"{population.n_items - canaries.N_NEW_ITEMS} items of the data, "
                f"{canaries.N_NEW_ITEMS} new items and a canary{steered_by}{left_out}"
            ),
            run_size_text=f"of {sizes.n_users:,} users",
            score_description=statistic,
            max_runs_per_world=canary_game.UPLOAD_RUNS if of_uploads else None,
        )

    def design_setups(
        self, case: GameInputs, deltas: Mapping[Scope, tuple[float, ...]], rng: np.random.Generator
    ) -> Iterator[GameSetup]:
        """Yields experiments with worst-case inputs that are designed for the system.

        This base method yields nothing.

        ``case``: the system, its data, and options.
        ``deltas``: deltas of the bounds to measure, by scope (unit, adjacency, what the adversary
            sees, duration).
        """
        return iter(())


class RoundGame(CrowdGame):
    """Game of one round of training, in which a canary (designed user) and a few users of the data
    take part.

    The server's step is simulated only if the adversary sees its result.

    ``name``: name of the game on the command line.
    ``horizon``: time that the adversary observes.
    ``chunk_size``: number of runs that are simulated together.
    """

    name = "round"
    horizon = Horizon.ROUND
    chunk_size = 256

    def design_setups(
        self, case: GameInputs, deltas: Mapping[Scope, tuple[float, ...]], rng: np.random.Generator
    ) -> Iterator[GameSetup]:
        """Yields an experiment with the worst-case inputs of the system, if its messages are
        reports (randomized coordinates of a gradient).

        ``case``: the system, the data of its users, and options.
        ``deltas``: deltas of the bounds, by scope (unit, adjacency, what the adversary sees,
            duration).

        The inputs are two histories of one designed user, and the broadcast at which reports on the
        two histories differ most. There are as many users as in the data; all others have the
        second history.
        """
        target, n_users = case.target, case.interactions.n_users
        scopes = {s: values for s, values in deltas.items() if s.vantage in rounds.UPLOAD_VANTAGES}
        pairs = [each for each in target.design_pairs() if each.scope.unit is Unit.REPORT]
        if not scopes or not pairs or target.sizes.reports is None:
            return
        pair, crowd = pairs[0], Population(n_users=n_users, n_items=pairs[0].profiles.n_items)
        # Every user sends all reports of the round.
        system: Target = replace(pair.target, reports=target.sizes.reports)  # type: ignore[type-var]
        vantages = canary_game.list_vantages(scopes)
        yield GameSetup(
            target=system,
            population=crowd,
            world_names=pair.world_names,
            deltas_by_scope=scopes,
            simulation=rounds.make_simulator(pair, system, vantages, rng, n_users - 1),
            run_description=(
                f"one round of {crowd.n_users:,} users and {crowd.n_items} items, after the server "
                f"sent a malicious model. All users except the canary have '{pair.world_names[1]}'"
            ),
            run_size_text=f"of {crowd.n_users:,} users",
            score_description=rounds.ROUND_SCORE_TEXT,
            max_runs_per_world=canary_game.UPLOAD_RUNS,
        )


class TrainingGame(CrowdGame):
    """Game of a whole training, in which a canary (designed user) and a few users of the data take
    part.

    If clients keep no state between rounds, the game may simulate single uploads instead
    (``can_fix_broadcast``).

    ``name``: name of the game on the command line.
    ``horizon``: time that the adversary observes.
    ``chunk_size``: number of runs that are simulated together.
    """

    name = "training"
    horizon = Horizon.TRAINING
    chunk_size = 8

    def limit_rounds(self, target: Target, quick: bool) -> Target:
        """Returns the target (system under audit), shortened to at most ``MAX_GAME_ROUNDS`` rounds.
        Claims are judged for the shortened training.

        ``quick``: whether to allow only a quarter of ``MAX_GAME_ROUNDS``.
        """
        return limit_rounds(target, quick)

    def can_fix_broadcast(self, target: Target) -> bool:
        """Whether single uploads at a fixed broadcast may be simulated in place of whole trainings.

        This requires that the server may choose the broadcast, so that a bound on epsilon at this
        broadcast is a bound for the training.
        """
        return target.has_independent_rounds


def _select_readable(
    attack: Attack,
    opening: Transcript,
    deltas: Mapping[Scope, tuple[float, ...]],
    rng: np.random.Generator,
) -> dict[Scope, tuple[float, ...]]:
    """The part of ``deltas`` (deltas by scope) whose vantages the attack can read.

    Raises InputError if ``deltas`` has scopes, but the attack can read none of their vantages.
    """
    refused = {v: attack.refusal(opening.view(v, rng)) for v in canary_game.list_vantages(deltas)}
    read = {scope: values for scope, values in deltas.items() if not refused[scope.vantage]}
    if deltas and not read:
        got = " ".join(f"a refusal at {vantage}: {why}" for vantage, why in refused.items())
        raise InputError(f"Expected by=None or an attack that reads messages, got {got} Omit by.")
    return read
