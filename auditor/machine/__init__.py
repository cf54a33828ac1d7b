"""Runtime of an audit: worker processes, standard streams, time limits and progress display."""
