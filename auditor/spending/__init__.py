"""Privacy accounting of stated noise, sampling and rounds, without a system to run (the command
``account``).
"""
