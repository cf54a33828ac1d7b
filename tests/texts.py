"""The letters that texts are drawn of: all of them."""

from __future__ import annotations

from hypothesis import strategies as st

# As Hypothesis draws by default, but for the codec that it names, whose letters it counts for long.
LETTERS = st.characters(exclude_categories=("Cs",))
