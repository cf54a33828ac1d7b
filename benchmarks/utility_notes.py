"""Why a figure of ours differs from the paper's, a sentence or two a target."""

NOTES: dict[str, str] = {}
