"""How it is judged: plan, games, estimators, runner and command line."""
