"""Privacy accounting from a description of noise, sampling and rounds, without a system to run (the
command ``account``).
"""
