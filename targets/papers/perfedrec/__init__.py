"""PerFedRec (Luo et al., CIKM 2022), as released: its privacy claims."""
