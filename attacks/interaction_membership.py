"""Membership inference of single interactions from uploads of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.base import AttackFamily, Background, Scores
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.calibration import calibrated_evidence
from fedrec_auditor.attacks.parts.prior import posterior, prior
from fedrec_auditor.attacks.parts.unlinked import found_again, pseudonymous
from fedrec_auditor.attacks.readers.base import SURE
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionMembership:
    """Score of each candidate (user, item): its log-odds, by what a reader tells of the uploads.

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
