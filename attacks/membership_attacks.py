"""Membership inference: of single interactions, and of whole users with known profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Scores
from fedrec_auditor.attacks.parts import profile_fit, reading
from fedrec_auditor.attacks.parts.calibration import calibrated_evidence
from fedrec_auditor.attacks.parts.prior import posterior, prior
from fedrec_auditor.attacks.parts.uploads import found_again, pseudonymous
from fedrec_auditor.attacks.readers.base import SURE
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionMembership:
    """Membership inference of single interactions from uploads of any kind.

    Score of each candidate (user, item): its log-odds, by what a reader tells of the uploads.

    That is the log-likelihood ratio of what was seen, and the log-odds of the item's popularity:
    what is known of it without the uploads, or else what they all tell together. (The user's
    activity is left out: it says how many of all items were met, nothing on a sample of as many
    members as non-members.)

    Where whole messages are seen without their senders, some items of each user are ``met``, known:
    a pair's score is its probability in each message, weighted by how likely that is the user's. Of
    its log-odds those of the item's popularity are replaced by what is known of them.
    """

    family: ClassVar[AttackFamily] = AttackFamily.MEMBERSHIP
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "log-odds of an interaction by the readers of messages (attacks/readers), which name their "
        "sources"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of messages that a reader reads."""
        return reading.refusal(pseudonymous(view) or view)

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        """Score every candidate pair of the background."""
        pairs = background.candidates
        if pairs is None:
            raise InputError("Expected candidate pairs in the background, got None. Give (m, 2).")
        users, rows = np.unique(pairs[:, 0], return_inverse=True)
        if hidden := pseudonymous(view):
            if background.met is None:
                raise InputError("Expected items met in the background, got None. Give (n, M).")
            evidence = reading.evidence(hidden, np.arange(hidden.public.n_users))
            chance = posterior(evidence)
            mine = found_again(chance, background.met[users])
            odds = logit((mine @ chance)[rows, pairs[:, 1]]).clip(-SURE, SURE)
            ratio = odds - prior(evidence)[0][pairs[:, 1]]
        else:
            evidence = calibrated_evidence(view, users)
            assert evidence.log_ratio is not None
            ratio = evidence.log_ratio[rows, pairs[:, 1]].astype(np.float64)
        known = background.prior
        return Scores(values=ratio + (prior(evidence)[0][pairs[:, 1]] if known is None else known))


Floats = NDArray[np.float64]
_TINY = 1e-12
_MEMO = "of profiles"
_GROUPS, _LEAST = 4, 100  # of profiles by their numbers of ratings, and profiles in one
_KNOWN = (Vantage.SERVER, Vantage.AGGREGATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMembership:
    """Membership inference of whole users: was this known profile trained on?

    Log-likelihood ratio of what a training tells of a profile, in against out.

    It is told by how models fit the profile (``profile_fit``), and of devices whose messages anyone
    can compute by the joint solve for who is in their sum (``joint_solve``), which needs no
    reference where all profiles are known. FCF, MovieLens 100K, 20 rounds, 4 trainings, as another
    client, AUC: models' fit .789, with the joint solve 1.0000; with 500 of 943 profiles known .79,
    and .89 (``benchmarks/user_membership.py``).

    What the reference models tell of the same profile is where it lies without the user, and how
    far it moves with it: the online attack of Carlini et al. 2022. With few references the shift
    and the covariance are those of profiles of about as many ratings together; the paper pools the
    latter only. Scores of a training are in units of their mean absolute deviation, which puts
    several trainings on one scale. RMIA's comparison with a population (Zarifzadeh et al. 2024),
    which is the rank, has an AUC within .002, but hides a gap between members and others.
    """

    family: ClassVar[AttackFamily] = AttackFamily.USER_MEMBERSHIP
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "likelihood ratio against reference models: Carlini et al., Membership Inference Attacks "
        "From First Principles, 2022, Algorithm 1, with pooled shift and covariance, of how models "
        "fit a profile (attacks/parts/profile_fit.py), and least squares for whose messages add up "
        "to the models' steps (attacks/parts/profile_fit.py)"
    )

    def refusal(self, view: View) -> str:
        """Why there is nothing to infer, or what is there instead of a model of items."""
        if view.vantage in _KNOWN and view.public.parties is None:
            return "Whoever receives the messages knows who takes part: there is nothing to infer."
        if not profile_fit.reads(view) and not profile_fit.solves(view):
            return (
                "Reads a model with a row an item, similarities of items, or sums of messages that "
                "the devices' code makes without randomness; none is seen."
            )
        return ""

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        """Score every profile of the background."""
        profiles, included = background.profiles, background.included
        if profiles is None or included is None or len(background.references) < 2:
            raise InputError(
                "Expected profiles and at least 2 references in the background, got "
                f"{len(background.references)}. Give profiles, references and who is in them."
            )
        seen = _told(view, profiles)
        known = np.stack([_told(reference, profiles) for reference in background.references])
        # Training moves a value for everybody.
        seen = seen - seen.mean(axis=0)
        known = known - known.mean(axis=1, keepdims=True)
        scores = np.empty(len(seen))
        order = np.argsort(np.diff(profiles.indptr), kind="stable")
        for alike in np.array_split(order, max(1, min(_GROUPS, len(order) // _LEAST))):
            scores[alike] = log_ratios(seen[alike], known[:, alike], included[:, alike])
        scores -= scores.mean()
        return Scores(values=scores / max(float(np.abs(scores).mean()), _TINY))


def _told(view: View, profiles: sparse.csr_array) -> Floats:
    """What a training tells of ``profiles``, (n, f); kept for the next one it is a reference of."""
    whose, told = view.memo.get(_MEMO, (None, None))
    if whose is not profiles:
        parts = [profile_fit.fits(view, profiles)] if profile_fit.reads(view) else []
        if profile_fit.solves(view, profiles.shape[0]):
            parts.append(profile_fit.shares(view, profiles)[:, None])
        if not parts:
            raise InputError(
                f"Expected messages of {profiles.shape[0]} profiles within "
                f"{profile_fit.SECONDS:g} seconds, got a slower client. Give fewer users."
            )
        told = np.concatenate(parts, axis=1)
        view.memo[_MEMO] = profiles, told
    return np.asarray(told)


def log_ratios(seen: Floats, known: Floats, included: NDArray[np.bool_]) -> Floats:
    """Of members against others: (n,), by ``seen`` (n, f) and ``known`` (k, n, f) of references.

    ``included`` (k, n) says who is in which reference. A value is that of the profile plus, if it
    is in, a shift d that all share, plus normal noise of one covariance S: d is the least-squares
    estimate within profiles, S that of what is left. With a the profile's own mean without the
    shift, the ratio of x is (x - a - d/2)' S^-1 d. 0 where the references tell nothing: each
    profile is in all of them or in none.
    """
    k, n, width = known.shape
    among = included - included.mean(axis=0)
    weight = float((among**2).sum())
    if not weight:
        return np.zeros(n)
    own = known - known.mean(axis=0)
    shift = np.einsum("kn,knf->f", among, own) / weight
    rest = own - among[:, :, None] * shift
    spread = np.einsum("knf,kng->fg", rest, rest) / max(1, n * (k - 1) - width)
    spread += (1e-6 * np.diag(spread) + _TINY**2) * np.eye(width)
    alone = known.mean(axis=0) - included.mean(axis=0)[:, None] * shift
    return np.asarray((seen - alone - shift / 2) @ np.linalg.lstsq(spread, shift, rcond=None)[0])
