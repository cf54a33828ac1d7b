"""Wu et al., arXiv 2021 and Nature Communications 2022: rating graphs, noisy gradients, codes."""
