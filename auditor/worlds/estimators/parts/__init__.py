"""What the estimators share: limits, tests, and the choice of what to look at."""
