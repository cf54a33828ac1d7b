"""Writers of an audit's reports, one module per output format."""
