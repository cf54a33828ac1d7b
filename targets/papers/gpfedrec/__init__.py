"""GPFedRec (Zhang et al., KDD 2024), as released: its privacy claims."""
