"""Other people's code itself, audited beside what is written anew of it here."""
