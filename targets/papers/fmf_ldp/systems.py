"""Systems of the FMF-LDP paper: FMF-LDP, and unprotected, central and random baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants import statements
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Scope, Sizes, Unit, Vantage
from fedrec_auditor.accountants.theorems.neighbours import count_anonymity_set
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.components import Floats, Ints, RankOneMessages, Reports
from fedrec_auditor.targets.compute import Machine, iter_blocks, limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.parts.grid import convert_to_uniform
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate
from fedrec_auditor.targets.papers.fmf_ldp import implicit_mf
from fedrec_auditor.targets.settings import Count, Epsilon, NoiseSetting, Positive, ShareBelow1
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import DesignedPair, Model, Population, UtilityTest
from fedrec_auditor.targets.systems.system import Messages, TrainingRounds, UploadRequest
from fedrec_auditor.targets.transcript import PublicInfo, Uploads

_MAX_HISTORY = 2000  # maximum number of items of a user in a worst-case pair
_BLOCK = 1 << 19  # numbers in a block of messages


@dataclass(frozen=True, kw_only=True)
class FmfLdp(system.ReportingSystem, implicit_mf.ImplicitMf):
    """FMF-LDP: federated matrix factorization with randomized signs of gradient entries.

    A client draws k coordinates of its item gradient (equation 5), and projects these entries to
    [-1, 1]. Each entry is sent as one report: a randomized sign of magnitude B (Algorithm 1,
    equation 8). The claimed epsilon of one report (Theorem 3) is exact. Over T rounds, the epsilon
    of a user against the server is k T times as large. The paper states "k epsilon for a user",
    which is the epsilon of one round.

    ``epsilon``: epsilon of one report.
    ``reports``: number k of reports that each user sends per round.
    ``colluding``: share of users who reveal their messages to the server. The paper mentions none.

    The printed text is changed in four places:

    - The projection to [-1, 1] is elementwise.
    - The server divides the sum of the reports by k N, for k reports of each of N users, not by N
      (equation 9).
    - Line 12 of Algorithm 2 is V + gamma (mean - 2 lambda V), for the item matrix V and the
      learning rate gamma.
    - User vectors X never leave the devices, although line 14 returns them.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> for scoped in FmfLdp().get_claims(Population(n_users=943, n_items=1682))[:2]:
    ...     print(scoped.scope, scoped.claim.epsilon)
    report / any pair / server / report 2.5
    user / any pair / server / round 250.0
    """

    # Reasons for the changes: without an elementwise projection the Bernoulli rate leaves [0, 1].
    # With the divisor N the mean is k times the gradient. Equation 5 is an ascent direction.
    #
    # Only the drawn entries are computed. The proxy, which shuffles all reports, does not hide the
    # other users' reports among those of colluding users.

    epsilon: Annotated[Epsilon, "epsilon of one report"] = 2.5
    reports: Count = 100
    colluding: ShareBelow1 = 0.0

    unprotected_name = "fcf"
    noise_setting = NoiseSetting(budget_names=("epsilon",))

    @property
    def sizes(self) -> Sizes:
        """Number of rounds per training, and number of reports per user and round."""
        return Sizes(rounds=self.rounds, reports=self.reports)

    @property
    def epsilon_per_round(self) -> float:
        """Epsilon of all reports of a user in one round: ``reports`` times ``epsilon``."""
        return self.reports * self.epsilon

    @property
    def training_epsilon(self) -> float:
        """Epsilon of a user's reports in a training: ``rounds`` times ``epsilon_per_round``."""
        return self.rounds * self.epsilon_per_round

    @property
    def channel(self) -> system.ReportDistribution:
        """Distribution of one report's bit given the projected gradient entry."""
        return system.ReportDistribution(self.epsilon)

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns the public knowledge of a run, in which the server sees only shuffled reports.

        A proxy removes the senders and shuffles the reports (section 3.1.2).
        """
        return replace(super().get_public_info(interactions), protocol_vantage=Vantage.SHUFFLED)

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns one worst-case pair of users, whose projected gradients are +1 and -1 in every
        entry.

        Each user interacted with one half of the items of a small catalogue. Raises InputError if
        the regularization is so large that the catalogue would need more than 4000 items.
        """
        # The server broadcasts the item matrix of ``make_malicious_items``.
        game = replace(self, factors=1, reports=1, rounds=1)
        half = game.find_opposing_history_length()
        if half > _MAX_HISTORY:
            raise InputError(
                f"Expected a regularization at which gradients of users with {_MAX_HISTORY} items "
                f"can reach 1, the bound to which they are projected, got regularization="
                f"{self.regularization!r}. Give a smaller regularization."
            )
        pair = DesignedPair(
            target=game,
            profiles=Interactions.create(np.repeat(np.eye(2), half, axis=1), name="game"),
            broadcast={"items": game.make_malicious_items(2 * half)},
            scope=statements.make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT),
            world_names=(
                f"the first half of the {2 * half} items in the history",
                f"the second half of the {2 * half} items in the history",
            ),
        )
        return (pair,)

    def find_opposing_history_length(self) -> int:
        """Returns the smallest number of interactions at which two users' projected gradients are
        opposite: +1 for one user, -1 for the other.

        Both users have this number of interactions. A malicious server broadcasts the item matrix
        (``make_malicious_items``).
        """
        held, scale = 1.0 + self.alpha, (2.0 + self.alpha) / 3.0
        left = 1.0 - held / (4.0 * scale)  # 1 - a F v
        root: float = max(4.0 * math.sqrt(scale) / (held**2 * left), 16.0 * scale**1.5 / held**2)
        return max(1, math.ceil(self.regularization * self.factors * root**2 * (1 + 1e-9)))

    def make_malicious_items(self, n_items: int, length: int | None = None) -> NDArray[np.float64]:
        """Returns a malicious item matrix (n_items, F), for which two users attain epsilon (Theorem
        3).

        ``n_items``: number of items.
        ``length``: number m of items of each of the two users; by default
            ``find_opposing_history_length()``.

        One user has the first m items and the other has the next m items. In these 2 m rows, the
        projected gradients of the two users are +1 and -1.

        Raises InputError if m is below ``find_opposing_history_length()``, or if the catalogue has
        fewer than 2 m items.
        """
        # The first m rows of the matrix have the same number v in every entry, the next m rows have
        # -v, and the remaining rows are zero.
        #
        # A user with the first m items has the solution x = a in every factor of the user vector, a
        # = (1 + alpha) m v / ((2 + alpha) m F v^2 + lambda). The gradient entries are (1 + alpha)
        # (1 - a F v) a on the user's rows and a^2 F v on the next m, all positive. A user with the
        # next m items has these entries negated. v^2 = 3 lambda / ((2 + alpha) m F) maximizes the
        # entries on the next m rows. All entries grow with sqrt(m / lambda) and exceed 1 from
        # ``find_opposing_history_length()`` on.
        fewest = self.find_opposing_history_length()
        m = fewest if length is None else length
        if not fewest <= m <= n_items // 2:
            raise InputError(
                f"Expected length from {fewest} to {n_items // 2} (half of n_items), got {m}. Give "
                f"such a length, n_items >= {2 * fewest}, or a smaller regularization."
            )
        v = math.sqrt(3.0 * self.regularization / ((2.0 + self.alpha) * m * self.factors))
        items = np.zeros((n_items, self.factors))
        items[:m], items[m : 2 * m] = v, -v
        return items

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the array "reports" of each message: k randomized gradient entries (Algorithm 1).

        A message draws 3 k words of its own random stream.
        """
        # The words are for k coordinates, k flips of the sign, and k roundings of the entry to -1
        # or 1. The user vector of every client is computed once, for any number of messages. Memory
        # is the reports and one block of messages.
        profiles, users, streams = request.profiles, request.sender_rows, request.streams
        shape = profiles.n_items, self.factors
        items = system.get_broadcast_array(request.broadcast, "items", shape)
        randomizer, k = self.make_randomizer(len(items)), self.reports
        gradients = self.compute_gradients(profiles.ratings, items)
        vectors = gradients.user_vectors
        index = np.empty((len(users), k), dtype=np.int32)
        positive = np.empty((len(users), k), dtype=np.bool_)
        for block in iter_blocks(len(users), len(items) + 16 * k, _BLOCK):
            draws = convert_to_uniform(Streams(streams.seeds[block]).draw_words(3 * k))
            index[block] = drawn = randomizer.map_to_coordinates(draws[:, :k])
            rows, flip, corner = users[block, None], draws[:, k : 2 * k], draws[:, 2 * k :]
            entries = self.compute_gradient_entries(profiles.ratings, vectors, items, rows, drawn)
            clipped = randomizer.clip_entries(entries)
            positive[block] = randomizer.compute_bits(clipped, flip=flip, corner=corner)
        reports = Reports(
            coordinates=index,
            is_positive=positive,
            magnitude=randomizer.magnitude,
            shape=(len(items), self.factors),
            clean_messages=gradients if request.messages_per_client == 1 else None,
        )
        return {"reports": reports}

    def compute_gradient_entries(
        self, profiles: sparse.csr_array, vectors: Floats, items: Floats, users: Ints, index: Ints
    ) -> NDArray[np.float64]:
        """Computes the entries ``index`` of the item gradients of ``users`` without noise (equation
        5).

        ``profiles``: interactions of all users, shape (n, n_items).
        ``vectors``: user vectors by equation 4, (n, F).
        ``items``: item matrix (n_items, F).
        ``users``: row indices of users in ``profiles`` and ``vectors``.
        ``index``: positions in the flattened gradient, item * F + factor.

        ``users`` and ``index`` are broadcast against each other, to the shape of the result. An
        entry is c (p - x.v_i) x_f, with confidence c, preference p (1 for an interaction, else 0),
        user vector x and item vector v_i.
        """
        item, factor = np.divmod(index, self.factors)
        first, last = users.min(), users.max()
        held = (profiles[first : last + 1].toarray() != 0)[users - first, item]
        predicted = sum(vectors[users, f] * items[item, f] for f in range(self.factors))
        confidence = np.where(held, 1.0 + self.alpha, 1.0)
        return np.asarray(confidence * (held - predicted) * vectors[users, factor])

    def update_model(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """Returns the next item matrix, after ``server_steps`` steps along the mean report.

        There are two differences from the paper:

        - The sum of the reports is divided by k N, for k reports of each of N users; equation 9
          divides by N.
        - The mean is added; line 12 of Algorithm 2 subtracts it.
        """
        # Equation 5 gives the direction in which the loss falls.
        mean = uploads.components["reports"].sum_all() / len(uploads.users)
        return self.take_ascent_steps(items, mean)

    def make_randomizer(self, n_items: int) -> OneCoordinate:
        """Returns the randomizer of one report: a randomized sign of one random gradient entry.

        The gradient has n_items x F entries.
        """
        return OneCoordinate(self.epsilon, n_items * self.factors)

    def count_shuffled_users(self, population: Population) -> int:
        """Counts the users whose reports hide one another after shuffling: all users who do not
        collude.

        Colluding users reveal which of the shuffled reports are theirs.
        """
        return count_anonymity_set(population.n_users, self.colluding)

    def count_randomizer_uses(self, horizon: Horizon) -> int:
        """Returns the number of reports that a user sends within ``horizon``.

        The horizon is one report, one round or the whole training.
        """
        uses = {Horizon.REPORT: 1, Horizon.ROUND: self.reports}
        return uses.get(horizon, self.reports * self.rounds)


@dataclass(frozen=True, kw_only=True)
class Fcf(system.NoiselessSystem, implicit_mf.ImplicitMf):
    """Federated collaborative filtering for implicit feedback, without protection.

    FCF is by Ammad-ud-din et al. 2019, here as in section 2.2 of Minto et al. 2021. Client u sends
    its gradient f(u, i) for all items i, shape (n_items, F) for F factors (equation 5). The server
    descends on the loss J (equations 6 and 7). For the item vector v_i, dJ/dv_i = -2 (sum of f(u,
    i) over u) + 2 lambda v_i.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=12, profile=4).load()
    >>> run = Fcf(rounds=2).run(data, np.random.default_rng(0))
    >>> [one.uploads.components["gradient"].shape for one in run.transcript.rounds]
    [(12, 5), (12, 5)]
    """

    def depends_on(self, scope: Scope) -> bool:
        """Whether messages depend on the data that ``scope`` protects.

        Messages depend on which items are rated, but not on a rating's value or on attributes.
        """
        return scope.unit is not Unit.ATTRIBUTE and not scope.protects_rating_value

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the requested messages: unprotected gradients of all items (equation 5).

        A message is the array "gradient" (n_items, F). No randomness is used.
        """
        profiles, users = request.profiles, request.sender_rows
        shape = profiles.n_items, self.factors
        items = system.get_broadcast_array(request.broadcast, "items", shape)
        gradient = self.compute_gradients(profiles.ratings, items)
        if request.messages_per_client != 1:
            vectors, corrections = gradient.user_vectors[users], gradient.sparse_vectors[users]
            gradient = RankOneMessages(vectors, gradient.item_vectors, corrections)
        return {"gradient": gradient}

    def get_user_vectors(self, uploads: Uploads) -> Floats | None:
        """Returns the user vectors (n_users, factors) from which ``uploads`` were computed.

        None if the uploads do not store them.
        """
        gradient = uploads.components["gradient"]
        if not isinstance(gradient, RankOneMessages):
            return None
        return gradient.user_vectors.astype(np.float64)

    def update_model(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """Returns the next item matrix, from the sum of all gradients (equations 6 and 7 of the
        FMF-LDP paper).
        """
        return self.take_ascent_steps(items, 2.0 * uploads.components["gradient"].sum_all())


@dataclass(frozen=True, kw_only=True)
class MfNp(system.CentralSystem):
    """Implicit matrix factorization without privacy: central alternating least squares.

    MF-NP (section 4.4.4) minimizes the loss of equation 1 at a server that holds all interactions.
    Devices upload nothing. The item vectors are published, and score items as in ``Fcf``. The paper
    does not state the training; the training by Hu, Koren and Volinsky 2008 is assumed.

    ``factors``: number F of entries of a user's and of an item's vector.
    ``alpha``: additional confidence of an interaction, which has weight 1 + alpha in the loss.
    ``regularization``: lambda of equation 1.
    ``epochs``: number of passes; each solves for all users, then for all items.
    ``init_scale``: standard deviation of the initial item matrix.
    """

    # In each pass, all user vectors and then all item vectors are set to their best values:
    # equation 4, for items with the roles of users and items exchanged.

    factors: settings.EmbeddingSize = 5
    alpha: Annotated[Positive, "alpha of a rating's weight c = 1 + alpha r"] = 1.0
    regularization: Annotated[Positive, "lambda of equation 1"] = 1e-6
    epochs: Annotated[Count, "passes; each solves all users, then all items"] = 20
    init_scale: Annotated[Positive, "standard deviation of the first V"] = 0.05

    tuned_values = MappingProxyType({"factors": 16})

    evaluation = UtilityTest(cutoffs=implicit_mf.RANKING_CUTOFFS)

    @property
    def n_training_steps(self) -> int:
        """Number of steps of the training, one per epoch."""
        return self.epochs

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, which estimates the cost of a
        training.

        The training passes over all interactions once per epoch.
        """
        return {"width": self.factors, "passes": self.epochs}

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs alternating least squares, and publishes the item vectors; yields no messages."""
        items: Floats = rng.normal(scale=self.init_scale, size=(interactions.n_items, self.factors))
        rows = interactions.ratings
        columns = sparse.csr_array(rows.T)
        with limit_to_one_thread():
            for _ in range(self.epochs):
                items = self._solve(self._solve(items, rows), columns)
                yield None
        return system.TrainingResult({"items": items}, {"items": items})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns the scores X V^T of all items for ``users``, shape (len(users), n_items).

        The user vectors X are fitted to the users' interactions, with the final item matrix V.
        """
        items = model.arrays["items"]
        with limit_to_one_thread():
            return np.asarray(self._solve(items, interactions.ratings[users]) @ items.T)

    def _solve(self, vectors: Floats, touched: sparse.csr_array) -> Floats:
        """Computes the best user vectors for given item vectors, or the best item vectors for given
        user vectors.

        ``vectors``: the given vectors, one per row.
        ``touched``: interactions, with one row per returned vector and one column per given vector.
        """
        return implicit_mf.compute_implicit_gradients(
            vectors, touched, alpha=self.alpha, regularization=self.regularization
        ).user_vectors


@dataclass(frozen=True, kw_only=True)
class Random(system.NoUploadSystem):
    """Random ranking of all items, which any useful recommender must exceed (section 4.4.4).

    Each user has one random order of the items. Nothing is sent and nothing depends on any
    interaction, so that epsilon is 0. HR@K among 99 sampled negatives is K/100.
    """

    evaluation = UtilityTest(cutoffs=implicit_mf.RANKING_CUTOFFS)

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Draws one random stream per user, from which the user's scores of items are drawn.

        Nothing is sent or published.
        """
        yield None
        return system.TrainingResult(None, {"streams": Streams.spawn(rng, interactions.n_users)})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns uniform random scores, shape (len(users), n_items).

        The scores of a user are the same in every call.
        """
        return np.asarray(model.arrays["streams"].take(users).draw_uniform(interactions.n_items))
