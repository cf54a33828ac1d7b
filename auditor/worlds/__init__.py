"""The road to a measured bound: worlds, how to draw from them, estimators."""
