"""Functions that score an attack on a federated training, by family of attacks (attribute
inference, membership inference, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.auditor.games import attribute, linkage, membership, reconstruction
from fedrec_auditor.auditor.games.game import Trial
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow

# Function that scores an attack, by family of the attack.
ATTACK_GAMES: Mapping[AttackFamily, Callable[[Trial], tuple[AttackRow | SkippedRow, ...]]] = {
    AttackFamily.ATTRIBUTE: attribute.score_attack,
    AttackFamily.MEMBERSHIP: membership.score_attack,
    AttackFamily.USER_MEMBERSHIP: membership.score_user_attack,
    AttackFamily.RECONSTRUCTION: reconstruction.score_attack,
    AttackFamily.LINKAGE: linkage.score_attack,
}
