"""Plans of audits: the settings of an audit, and the systems, attacks and data that a plan
names.
"""
