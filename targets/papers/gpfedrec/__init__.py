"""Privacy claims of GPFedRec (Zhang et al., KDD 2024), for its released code."""
