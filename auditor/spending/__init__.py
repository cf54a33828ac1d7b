"""What somebody's noise, sampling and rounds spend: epsilon per round and in total."""
