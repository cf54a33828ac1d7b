"""Text as it is printed to a console."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from rich.console import Console


def printed(render: Callable[[Console], object], *, width: int = 80, terminal: bool = True) -> str:
    """Return what ``render`` prints to a console; a terminal's without its colours."""
    file = io.StringIO()
    render(Console(file=file, width=width, force_terminal=terminal, no_color=True))
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()) if terminal else file.getvalue()
