"""This machine and its kin: processes, clusters, standard streams, deadlines, progress."""
