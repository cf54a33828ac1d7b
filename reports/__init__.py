"""What is written: the record of an audit, and its renderings."""
