"""Runtime of an audit on one machine: worker processes, standard streams, deadlines and
progress.
"""
