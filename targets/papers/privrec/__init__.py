"""PrivRec and DP-PrivRec (Wang et al., VLDB Journal 2021): systems, privacy claims, and numbers
that the paper prints.

The systems meta-learn a neural recommender over devices: each device adapts a shared model to its
own data. In DP-PrivRec the server adds noise to the average change.
"""
