"""What the papers print, measured again: one file a paper."""
