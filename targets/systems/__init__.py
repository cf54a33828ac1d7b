"""The wrapped recommenders, one a file; the file's name is the target's name."""
