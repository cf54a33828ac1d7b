"""Systems written by somebody else, given as callables of a client and a server."""
