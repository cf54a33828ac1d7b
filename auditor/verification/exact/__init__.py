"""Laws that are known: every probability is calculated, and the worst pair is searched."""
