"""FedNewsRec (Qi et al., Findings of EMNLP 2020), as released: its privacy claims."""
