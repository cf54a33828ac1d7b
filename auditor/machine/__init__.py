"""Runtime of an audit on one machine: processes, standard streams, deadlines, progress."""
