"""PrivRec and DP-PrivRec (Wang et al., VLDB Journal 2021): systems, claims and printed numbers.

The systems meta-learn a neural recommender over devices; in DP-PrivRec the server adds noise to the
average change.
"""
