"""All games with a canary (designed user), by name: local, round, training and one-run."""

from __future__ import annotations

from fedrec_auditor.auditor.games.canary_game import CanaryGame
from fedrec_auditor.auditor.games.crowd_game import RoundGame, TrainingGame
from fedrec_auditor.auditor.games.local import LocalGame
from fedrec_auditor.auditor.games.one_run import OneRunGame

# Name of the local game, and the one-run game, for modules that need only one of the games.
LOCAL_NAME, ONE_RUN_GAME = LocalGame.name, OneRunGame()
CANARY_GAMES: dict[str, CanaryGame] = {
    game.name: game for game in (LocalGame(), RoundGame(), TrainingGame(), ONE_RUN_GAME)
}
