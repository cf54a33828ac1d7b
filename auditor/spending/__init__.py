"""Privacy accounting of a user's own noise, sampling and rounds: epsilon per round and in total."""
