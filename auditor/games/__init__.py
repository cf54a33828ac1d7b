"""Games: experiments that compare an adversary's guesses with a truth that it does not see."""
