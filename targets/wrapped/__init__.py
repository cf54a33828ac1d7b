"""Systems that somebody else wrote, given as callables of a client and a server."""
