"""Functions that score an attack on a training, one per family of attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.auditor.games import attribute, linkage, membership, reconstruction
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow

ATTACK_GAMES: Mapping[AttackFamily, Callable[[Game], tuple[AttackRow | SkippedRow, ...]]] = {
    AttackFamily.ATTRIBUTE: attribute.play,
    AttackFamily.MEMBERSHIP: membership.play,
    AttackFamily.USER_MEMBERSHIP: membership.play_users,
    AttackFamily.RECONSTRUCTION: reconstruction.play,
    AttackFamily.LINKAGE: linkage.play,
}
