"""The plan of an audit, and the systems, attacks, data and settings that it names."""
