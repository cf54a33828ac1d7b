"""Systems of the PrivRec paper: PrivRec, DP-PrivRec and their baselines."""
