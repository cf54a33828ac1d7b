"""Template files that ``auditor new`` writes; the test among them passes without changes."""
