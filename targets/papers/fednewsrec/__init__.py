"""Privacy claims of FedNewsRec (Qi et al., Findings of EMNLP 2020), for its released code."""
