"""All broken randomizers with their honest twins, and the innocents that look broken."""

from __future__ import annotations

from tests.specimens.noise import INNOCENT_NOISE, NOISE
from tests.specimens.plumbing import PLUMBING
from tests.specimens.responses import INNOCENT_RESPONSES, RESPONSES
from tests.specimens.vectors import VECTORS

RANDOMIZERS = NOISE | RESPONSES | VECTORS | PLUMBING
INNOCENTS = INNOCENT_NOISE | INNOCENT_RESPONSES
