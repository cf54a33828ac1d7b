"""Privacy claims of PerFedRec (Luo et al., CIKM 2022), for its released code."""
