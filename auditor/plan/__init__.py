"""The plan of an audit, and the members, systems and data that it names."""
