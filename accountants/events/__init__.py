"""What a mechanism does, as trees of events: leaves of ours beside those of dp-accounting."""
