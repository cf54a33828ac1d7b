"""Games are experiments that compare an adversary's guesses with a truth that the adversary does
not see.
"""
