"""Local randomizers of other libraries: one module per library, with a function ``list_cases()``.

``list_cases`` raises ImportError if the library is not installed.
"""
