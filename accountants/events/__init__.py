"""Events of accounting: mechanisms as trees of our own leaves and those of dp-accounting."""
