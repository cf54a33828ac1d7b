"""Template files for a new project that ``auditor new`` writes. The test among the files passes
without changes.
"""
