"""Systems of the FMF-LDP paper: FMF-LDP and its baselines."""
