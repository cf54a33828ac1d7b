"""Console output as text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from rich.console import Console


def capture(render: Callable[[Console], object], *, width: int = 80, terminal: bool = True) -> str:
    """The text that ``render`` prints to a console, without a terminal's colours."""
    file = io.StringIO()
    render(Console(file=file, width=width, force_terminal=terminal, no_color=True))
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()) if terminal else file.getvalue()
