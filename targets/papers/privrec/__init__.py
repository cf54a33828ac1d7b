"""Wang et al., VLDB Journal 2021: meta-learned networks, central noise."""
