"""Qi, Wu, Wu, Huang, Xie: FedNewsRec, Findings of EMNLP 2020, and its released code."""
