"""Local randomizers of other libraries: one module per library, with a function ``cases()``.

``cases`` raises ImportError if the library is not installed.
"""
