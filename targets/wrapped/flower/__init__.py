"""Apps of the framework Flower under audit: clients, mods (wrappers of a client's training) and
server strategies.
"""
