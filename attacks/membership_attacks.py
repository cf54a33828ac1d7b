"""Membership inference: was an interaction, or a whole user, in the training data?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, MemberScores
from fedrec_auditor.attacks.parts import profile_fit, reading
from fedrec_auditor.attacks.parts.reading import read_calibrated
from fedrec_auditor.attacks.parts.uploads import assign_pseudonyms, compute_sender_probs
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, compute_posterior, fit_prior
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionMembership:
    """Membership inference for single interactions, from uploads of any form.

    The score of each candidate (user, item) pair is the log-odds of the interaction, given the
    messages. Two terms are added:

    - the log-likelihood ratio of the messages, which a reader (``attacks/readers``) computes;
    - the prior log-odds of the pair (``prior_log_odds``) or, if unknown, the log-odds of the item's
      popularity, estimated from all uploads.

    If messages are shuffled, their senders are unknown. Some items of each user must then be known
    (``known_items``), which give the probability that a message is the user's. With these
    probabilities as weights, the pair's probability is averaged over messages.

    family: family of the attack, which is the kind of secret that it infers
    needs_known: whether the attack needs users of known class; always False
    reference: description of the method, with its source
    """

    # The user's activity is omitted: it depends on the user's number of items, which is irrelevant
    # for a sample with as many members as non-members.

    family: ClassVar[AttackFamily] = AttackFamily.MEMBERSHIP
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "log-odds that a user has an item, by the methods of attacks/readers (sources are there)"
    )

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs messages that some reader (``attacks/readers``) can turn into log-ratios of
        interactions.
        """
        return reading.explain_no_reader(assign_pseudonyms(view) or view)

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        """Computes the log-odds of an interaction for every pair of ``background.candidate_pairs``.

        Raises InputError if the background has no candidate pairs, or if senders are unknown and it
        has no ``known_items``.
        """
        pairs = background.candidate_pairs
        if pairs is None:
            raise InputError("Expected background.candidate_pairs, got None. Give user-item pairs.")
        users, rows = np.unique(pairs[:, 0], return_inverse=True)
        if hidden := assign_pseudonyms(view):
            if background.known_items is None:
                raise InputError("Expected background.known_items, got None. Give known_items.")
            evidence = reading.read_evidence(hidden, np.arange(hidden.public.n_users))
            chance = compute_posterior(evidence)
            by_message = compute_sender_probs(chance, background.known_items[users])
            mean = (by_message @ chance)[rows, pairs[:, 1]]  # rounding may lift a mean above 1
            odds = logit(mean.clip(0.0, 1.0)).clip(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            ratio = odds - fit_prior(evidence)[0][pairs[:, 1]]
        else:
            evidence = read_calibrated(view, users)
            assert evidence.log_ratio is not None
            ratio = evidence.log_ratio[rows, pairs[:, 1]].astype(np.float64)
        known = background.prior_log_odds
        odds = fit_prior(evidence)[0][pairs[:, 1]] if known is None else known
        return MemberScores(values=ratio + odds)


Floats = NDArray[np.float64]
_TINY = 1e-12
_MEMO = "of profiles"
_GROUPS, _MIN_GROUP = 4, 100  # maximum number of groups of profiles, and minimum size of a group
_KNOWN = (Vantage.SERVER, Vantage.AGGREGATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMembership:
    """Membership inference for whole users: was a known profile in the training data?

    A profile is the ratings of one user. The score is a log-likelihood ratio, with the profile in
    the training data against without it. The ratio is that of the profile's features
    (``profile_fit``):

    - how well the models fit the profile;
    - how much the profile contributes to a sum of messages, if anyone can compute the devices'
      messages.

    Both distributions are fitted to reference trainings, as in the online attack of Carlini et al.
    2022. Their shift and covariance are pooled over profiles with a similar number of ratings. The
    paper pools only the covariance.

    family: family of the attack, which is the kind of secret that it infers
    needs_known: whether the attack needs users of known class; always False
    reference: description of the method, with its source
    """

    # The AUC for FCF on MovieLens 100K, with 20 rounds, 4 trainings and another client as the
    # adversary, is .789 with the first kind of features and 1.0000 with the second kind. With 500
    # of 943 profiles known, it is .79 and .89 (``benchmarks/user_membership.py``). If all profiles
    # are known, the second kind needs no reference training. The shift is pooled because references
    # are few. Scores of a training are in units of their mean absolute deviation, which makes
    # scores of several trainings comparable. An alternative is RMIA (Zarifzadeh et al. 2024), which
    # ranks a profile within a population. Its AUC differs from this attack's by at most .002, but a
    # rank hides a gap between members and non-members.

    family: ClassVar[AttackFamily] = AttackFamily.USER_MEMBERSHIP
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "a likelihood ratio compares how well models trained with and without a user fit the "
        "user's profile (Carlini et al., Membership Inference Attacks From First Principles, 2022, "
        "Algorithm 1, with pooled shift and covariance). From the model's steps, least squares "
        "find the senders whose messages add up to a step. Both methods are in "
        "attacks/parts/profile_fit.py"
    )

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs an adversary who does not see which users take part, and a model or sums of
        messages that it can read.
        """
        if view.vantage in _KNOWN and view.public.n_silos is None:
            return "The receiver of the messages knows who takes part, so nothing is left to infer."
        can_solve = profile_fit.can_infer_participation
        if not profile_fit.has_readable_model(view) and not can_solve(view):
            return (
                "The attack needs a model with one row per item, similarities of items, or sums of "
                "messages that devices compute without randomness; this adversary sees none."
            )
        return ""

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        """Scores every user of ``background.profiles``; larger scores are more likely members.

        A profile is the ratings of one user; members are the users in the training data. Raises
        InputError unless the background has profiles and at least two reference trainings.
        """
        profiles, included = background.profiles, background.is_in_training
        if len(views := background.reference_views) < 2 or profiles is None or included is None:
            raise InputError(
                "Expected background with profiles, is_in_training and >= 2 reference_views, got "
                f"{type(profiles).__name__}, {type(included).__name__}, {len(views)}. Give all 3."
            )
        features = _measure_features(view, profiles)
        known = np.stack([_measure_features(each, profiles) for each in views])
        # Training moves a value for everybody.
        features = features - features.mean(axis=0)
        known = known - known.mean(axis=1, keepdims=True)
        scores = np.empty(len(features))
        order = np.argsort(np.diff(profiles.indptr), kind="stable")
        for alike in np.array_split(order, max(1, min(_GROUPS, len(order) // _MIN_GROUP))):
            scores[alike] = score_profiles(features[alike], known[:, alike], included[:, alike])
        scores -= scores.mean()
        return MemberScores(values=scores / max(float(np.abs(scores).mean()), _TINY))


def _measure_features(view: View, profiles: sparse.csr_array) -> Floats:
    """Returns features (n, f) of each of ``profiles`` in one training, cached for later calls."""
    whose, features = view.cache.get(_MEMO, (None, None))
    if whose is not profiles:
        parts: list[Floats] = []
        if profile_fit.has_readable_model(view):
            parts.append(profile_fit.measure_profile_fit(view, profiles))
        if profile_fit.can_infer_participation(view, profiles.shape[0]):
            parts.append(profile_fit.infer_participation(view, profiles)[:, None])
        if not parts:
            raise InputError(
                f"Expected at most {profile_fit.count_max_profiles(view):,} users in "
                f"background.profiles, got {profiles.shape[0]:,}. Give profiles of fewer users."
            )
        features = np.concatenate(parts, axis=1)
        view.cache[_MEMO] = profiles, features
    return np.asarray(features)


def score_profiles(features: Floats, references: Floats, included: NDArray[np.bool_]) -> Floats:
    """Returns log-likelihood ratios (n,) that users' profiles are in the training data.

    A profile is the ratings of one user.

    features: features of the profiles in the attacked training (n, f)
    references: features of the profiles in k reference trainings (k, n, f)
    included: True if a profile is in a reference training (k, n)

    Features x of a profile are modelled as normal, with covariance S for all profiles. Their mean
    is a without the profile in the training, and a + d with it. The ratio is (x - a - d/2)' S^-1 d.
    All ratios are 0 if each profile is in all references or in none.
    """
    # The shift d is the least-squares estimate within profiles, and S is estimated from the
    # residuals.
    k, n, width = references.shape
    among = included - included.mean(axis=0)
    weight = float((among**2).sum())
    if not weight:
        return np.zeros(n)
    own = references - references.mean(axis=0)
    shift = np.einsum("kn,knf->f", among, own) / weight
    rest = own - among[:, :, None] * shift
    cov = np.einsum("knf,kng->fg", rest, rest) / max(1, n * (k - 1) - width)
    cov += (1e-6 * np.diag(cov) + _TINY**2) * np.eye(width)
    alone = references.mean(axis=0) - included.mean(axis=0)[:, None] * shift
    return np.asarray((features - alone - shift / 2) @ np.linalg.lstsq(cov, shift, rcond=None)[0])
