"""Local randomizers of other libraries, a module each: ``cases()``, an ImportError where absent."""
