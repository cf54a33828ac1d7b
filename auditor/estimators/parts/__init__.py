"""Black boxes: a rule is chosen on some draws, and its guesses are counted on others."""
