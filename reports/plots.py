"""Charts of the HTML report as inline SVG: a log scale of epsilon, and an attack's interval bar.

Drawn by matplotlib's SVG backend with stand-in colours that become the page's CSS variables, so
that one drawing serves light, dark and print. No string of the record enters a drawing.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.statements.bound import guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from fedrec_auditor.reports.rows import AttackRow, Finding
from fedrec_auditor.reports.words import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Stand-in colours, and the CSS variables of the page that replace them.
_NAMES = ("ink", "muted", "leak", "pale", "claim", "shade")
_VARIABLES = {f"#01010{place}": f"var(--{name})" for place, name in enumerate(_NAMES, 1)}
_INK, _SOFT, _LEAK, _PALE, _CLAIM, _SHADE = _VARIABLES
_WIDTH = 360  # points: about a phone, so that text keeps its size there
_VACUOUS = math.log(VACUOUS_GUESS / (1 - VACUOUS_GUESS))


def log_scale(findings: Sequence[Finding]) -> str:
    """Claimed, proved and measured epsilon of every finding on one log axis, as SVG.

    The solid bar ends at the lower bound (that much leaks), the pale bar at the proved upper
    bound (no more than that), the tall mark is the claim. Zero sits at the left edge and infinity
    at the right one, beyond a break.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    low, high = _decades(findings)
    edge = high + 0.12 * (high - low)  # where infinity sits

    def place(epsilon: float) -> float:
        if math.isinf(epsilon):
            return edge
        return min(max(math.log10(epsilon) if epsilon > 0 else low, low), high)

    height = 34 * len(findings) + 34
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    axes = figure.add_axes((0.045, 26 / height, 0.935, (height - 34) / height))
    right = edge + 0.03 * (high - low)
    axes.set_xlim(low, right)
    axes.set_ylim(len(findings), 0)
    if math.log10(_VACUOUS) < high:
        start = max(math.log10(_VACUOUS), low)
        axes.add_patch(Rectangle((start, 0), right - start, len(findings), color=_SHADE))
    for row, finding in enumerate(findings):
        shown = None if finding.measured is None else place(finding.measured.epsilon)
        proved = None if finding.accounted is None else place(finding.accounted.epsilon)
        scope = finding.scope
        axes.text(low, row + 0.36, f" {scope}", color=_INK, fontsize=10, va="bottom")
        axes.plot((low, edge), (row + 0.66, row + 0.66), color=_SOFT, lw=0.6)
        if proved is not None:
            axes.add_patch(Rectangle((low, row + 0.52), proved - low, 0.28, color=_PALE))
            axes.plot((proved, proved), (row + 0.52, row + 0.8), color=_SOFT, lw=1.6)
        if shown is not None:
            width = max(shown - low, 0.01)
            axes.add_patch(Rectangle((low, row + 0.59), width, 0.14, color=_LEAK))
        claim = place(finding.claim.epsilon)
        axes.plot((claim, claim), (row + 0.46, row + 0.86), color=_CLAIM, lw=2.2)
        axes.plot(claim, row + 0.46, marker="D", ms=5.5, color=_CLAIM)
    decades = list(range(low, high + 1))
    step = max(1, math.ceil(len(decades) / 7))
    ticks = [*decades[::step], edge]
    labels = [number(10.0**decade) for decade in decades[::step]]
    axes.set_xticks(ticks, [f"≤ {labels[0]}", *labels[1:], "∞"])
    axes.set_yticks([])
    axes.tick_params(axis="x", colors=_SOFT, labelcolor=_INK, labelsize=10, length=3)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.spines["bottom"].set_color(_SOFT)
    return _svg(figure, f"log scale {low} {high} {len(findings)}")


def interval(attack: AttackRow, low: float, high: float) -> str:
    """One attack's value with its interval and a tick at its baseline, ``low`` to ``high``."""
    from matplotlib.figure import Figure

    def place(value: float) -> float:
        return min(max((value - low) / (high - low), 0.0), 1.0)

    figure = Figure(figsize=(140 / 72, 18 / 72))
    axes = figure.add_axes((0.04, 0.0, 0.92, 1.0))
    axes.set_xlim(0, 1)
    axes.set_ylim(-1, 1)
    axes.set_axis_off()
    axes.plot((0, 1), (0, 0), color=_SOFT, lw=0.8)
    ends = (place(attack.ci_low), place(attack.ci_high))
    axes.plot(ends, (0, 0), color=_LEAK, lw=2, marker="|", ms=8, mew=1.6, clip_on=False)
    if attack.baseline is not None:
        base = place(attack.baseline)
        axes.plot((base, base), (-0.85, 0.85), color=_INK, lw=1.6)
    axes.plot(place(attack.value), 0, marker="o", ms=4.5, mew=0, color=_LEAK, clip_on=False)
    return _svg(figure, "interval")


def scale(attacks: Sequence[AttackRow]) -> tuple[float, float]:
    """The common range of the bars: [0, 1], or wider if a value lies outside."""
    values = [v for a in attacks for v in (a.value, a.ci_low, a.ci_high, a.baseline)]
    finite = [v for v in values if v is not None and abs(v) < 1e100]
    return min([0.0, *finite]), max([1.0, *finite])


def guess_labels() -> list[tuple[str, float]]:
    """A few epsilons and what they mean, for the key under the log scale."""
    return [(number(epsilon), guess_probability(epsilon)) for epsilon in (0.1, 1.0, 2.5, 7.0)]


def _decades(findings: Sequence[Finding]) -> tuple[int, int]:
    epsilons = [
        bound.epsilon
        for finding in findings
        for bound in (finding.claim, finding.accounted, finding.measured)
        if bound is not None and 0 < bound.epsilon < math.inf
    ]
    low = math.floor(math.log10(min(epsilons, default=0.1)))
    high = math.ceil(math.log10(max(epsilons, default=10.0)))
    high = max(high, 1)
    return max(min(low, -1), high - 12), high


def _svg(figure: Figure, salt: str) -> str:
    import matplotlib

    buffer = io.StringIO()
    settings: Any = {"svg.hashsalt": salt, "svg.fonttype": "none", "text.parse_math": False}
    with matplotlib.rc_context(settings):
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # A style sheet inside an inline SVG would style the whole page, and identifiers would clash.
    text = re.sub(r"<(style|metadata)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' id="(?![mp][0-9a-f]{10})[^"]*"', "", text)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", text)
    for stand_in, variable in _VARIABLES.items():
        text = text.replace(stand_in, variable)
    return re.sub(r"\n\s*", "\n", text).replace("<svg ", '<svg aria-hidden="true" ', 1)
