"""Luo, Xiao, Song: PerFedRec, CIKM 2022, and its released code."""
