"""How a claim is judged: plans, games, estimators, verification and the command line."""
