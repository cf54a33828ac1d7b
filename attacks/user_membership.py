"""Membership inference of whole users: was this known profile trained on?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Scores
from fedrec_auditor.attacks.parts import profile_fit
from fedrec_auditor.targets.transcript import View

Floats = NDArray[np.float64]
_TINY = 1e-12
_GROUPS, _LEAST = 4, 100  # of profiles by their numbers of ratings, and profiles in one
_KNOWN = (Vantage.SERVER, Vantage.AGGREGATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMembership:
    """Log-likelihood ratio of what a model tells of a profile (``profile_fit``), in against out.

    What the reference models tell of the same profile is where it lies without the user, and how
    far it moves with it: the online attack of Carlini et al. 2022. With few references the shift
    and the covariance are those of profiles of about as many ratings together; the paper pools the
    latter only.

    A score is the share of the other profiles whose ratio is lower: the comparison with a
    population of RMIA (Zarifzadeh et al. 2024, equation 2 at gamma = 1). Within one training it
    ranks as the ratio does; it puts scores of several trainings on one scale. RMIA's own ratio, of
    one statistic to its mean over references, is no better than LiRA's of the same statistic, and
    offline (references without the user only) both are worse. FCF, MovieLens 100K, 20 rounds, the
    models of all rounds, means of 4 times 8 trainings, AUC and TPR at 1% FPR: all statistics, LiRA
    online .796, .124, and ranked so .803, .154; the first statistic alone, LiRA online .786, .078,
    RMIA online .787, .107, RMIA offline .578, .124; LiRA offline, all statistics, .694, .056.
    """

    family: ClassVar[AttackFamily] = AttackFamily.USER_MEMBERSHIP
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "likelihood ratio against reference models: Carlini et al., Membership Inference Attacks "
        "From First Principles, 2022, Algorithm 1, with pooled shift and covariance, of how models "
        "fit a profile (attacks/parts/profile_fit.py); ranked among profiles as by Zarifzadeh et "
        "al., Low-Cost High-Power Membership Inference Attacks, 2024"
    )

    def refusal(self, view: View) -> str:
        """Why there is nothing to infer, or what is there instead of a model of items."""
        if view.vantage in _KNOWN and view.public.parties is None:
            return "Whoever receives the messages knows who takes part: there is nothing to infer."
        if not profile_fit.reads(view):
            return "Reads a model with a row an item, or similarities of items; none is seen."
        return ""

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        """Score every profile of the background."""
        profiles, included = background.profiles, background.included
        if profiles is None or included is None or len(background.references) < 2:
            raise InputError(
                "Expected profiles and at least 2 references in the background, got "
                f"{len(background.references)}. Give profiles, references and who is in them."
            )
        seen = profile_fit.fits(view, profiles)
        known = np.stack(
            [profile_fit.fits(reference, profiles) for reference in background.references]
        )
        # Training moves a value for everybody.
        seen = seen - seen.mean(axis=0)
        known = known - known.mean(axis=1, keepdims=True)
        scores = np.empty(len(seen))
        order = np.argsort(np.diff(profiles.indptr), kind="stable")
        for alike in np.array_split(order, max(1, min(_GROUPS, len(order) // _LEAST))):
            scores[alike] = log_ratios(seen[alike], known[:, alike], included[:, alike])
        return Scores(values=rankdata(scores) / len(scores))


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
