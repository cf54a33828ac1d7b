"""Systems of the DPLCF paper: DPLCF, its ablations and its two central baselines."""
