"""Zhang, Long, Zhou, Zhang, Yan, Yang: GPFedRec, KDD 2024, and its released code."""
