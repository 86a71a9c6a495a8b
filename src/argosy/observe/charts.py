"""Charts as inline SVG: lines, bars on a log scale, and the time line of a run. Pure."""

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from argosy.observe.story import Story

# Okabe and Ito's palette: told apart by people with any colour vision.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
FAULTS = frozenset({"fault", "lost", "hung", "nan", "rollback", "disk", "checkpoint", "clock"})
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 820, 64, 20, 16, 40


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """Maps values to pixels and knows where its ticks are."""

    low: float
    high: float
    from_px: float
    to_px: float

    def at(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        return self.from_px + (value - self.low) / span * (self.to_px - self.from_px)

    def ticks(self, wanted: int = 6) -> list[float]:
        """Round numbers (1, 2 or 5 times a power of ten) inside the axis."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        rough = span / wanted
        power = 10 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
        first = math.ceil(self.low / step)
        return [k * step for k in range(first, math.floor(self.high / step) + 1)]


def number(value: float) -> str:
    """12345678 -> 12.3 M: three figures are enough for a reader."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Bytes for people, in powers of 1000."""
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.3g} s"


def _svg(height: float, body: str, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{body}</svg>"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'
    )


def _grid(x: Axis, y: Axis, x_name: str, y_name: str) -> str:
    parts = []
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(
            f'<line x1="{x.from_px}" x2="{x.to_px}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
        )
        parts.append(_text(x.from_px - 8, at + 4, number(tick), anchor="end", kind="tick"))
    parts.extend(
        _text(x.at(tick), y.from_px + 18, number(tick), anchor="middle", kind="tick")
        for tick in x.ticks(8)
    )
    parts.append(_text((x.from_px + x.to_px) / 2, y.from_px + 34, x_name, anchor="middle"))
    parts.append(_text(x.from_px - 56, y.to_px - 4, y_name))
    return "".join(parts)


def lines(
    series: "Sequence[tuple[str, Sequence[tuple[float, float]]]]",
    *,
    x_name: str,
    y_name: str,
    gap: float = math.inf,
) -> str:
    """One line per named series of (x, y) points, with a dot and a tooltip at each point.

    Where a stretch of more than `gap` lies between two points nothing was measured: dashed.
    """
    points = [p for _, line in series for p in line if math.isfinite(p[1])]
    if not points:
        return "<p class=quiet>Nothing was measured.</p>"
    top, height = TOP + 8, 300.0
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    pad = (max(ys) - min(ys)) * 0.06 or 0.1
    x = Axis(low=min(xs), high=max(xs), from_px=LEFT, to_px=WIDTH - RIGHT)
    y = Axis(low=min(ys) - pad, high=max(ys) + pad, from_px=height - BOTTOM, to_px=top)
    parts = [_grid(x, y, x_name, y_name)]
    for index, (name, line) in enumerate(series):
        seen = [(a, b) for a, b in line if math.isfinite(b)]
        for (a, b), (c, d) in pairwise(seen):
            dash = ' stroke-dasharray="2 6"' if c - a > gap else ""
            parts.append(
                f'<line x1="{x.at(a):.1f}" y1="{y.at(b):.1f}" x2="{x.at(c):.1f}"'
                f' y2="{y.at(d):.1f}" class="line" stroke="{colour(index)}"{dash}/>'
            )
        parts.extend(
            f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{colour(index)}">'
            f"<title>{escape(name)}: {b:.4g} at {number(a)}</title></circle>"
            for a, b in seen
        )
    return legend([name for name, _ in series]) + _svg(height, "".join(parts), y_name)


def legend(names: "Sequence[str]") -> str:
    items = "".join(
        f'<span><i style="background:{colour(i)}"></i>{escape(name)}</span>'
        for i, name in enumerate(names)
    )
    return f'<p class="legend">{items}</p>'


def bars(rows: "Sequence[tuple[str, float, float]]", *, first: str, second: str) -> str:
    """Pairs of bytes per row on one logarithmic scale: what moved against what would have."""
    values = [v for _, a, b in rows for v in (a, b) if v > 0]
    if not values:
        return "<p class=quiet>Nothing crossed a link.</p>"
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 0.01)
    x = Axis(low=low, high=high, from_px=LEFT + 70, to_px=WIDTH - 90)
    height = TOP + 46.0 * len(rows) + BOTTOM
    parts = [
        f'<line x1="{x.at(k):.1f}" x2="{x.at(k):.1f}" y1="{TOP}" y2="{height - BOTTOM}"'
        f' class="grid"/>'
        + _text(x.at(k), height - BOTTOM + 16, size(10.0**k), anchor="middle", kind="tick")
        for k in range(low, high + 1)
    ]
    for index, (name, moved, would) in enumerate(rows):
        y = TOP + 46.0 * index
        parts.append(_text(LEFT + 60, y + 24, name, anchor="end"))
        for value, shift, fill in ((moved, 4, COLOURS[0]), (would, 22, COLOURS[7])):
            end = x.at(math.log10(value)) if value > 0 else x.from_px
            parts.append(
                f'<rect x="{x.from_px}" y="{y + shift}" height="15" rx="2"'
                f' width="{max(0.0, end - x.from_px):.1f}" fill="{fill}"/>'
                + _text(max(end, x.from_px) + 6, y + shift + 12, size(value), kind="tick")
            )
    key = (
        f'<p class="legend"><span><i style="background:{COLOURS[0]}"></i>{escape(first)}</span>'
        f'<span><i style="background:{COLOURS[7]}"></i>{escape(second)}</span></p>'
    )
    return key + _svg(height, "".join(parts), f"{first} against {second}, logarithmic")


def timeline(story: "Story") -> str:
    """One lane per host: when it lived, what befell it, and the rounds across all lanes."""
    lanes = sorted({(life.site, life.host) for life in story.lives})
    if not lanes:
        return "<p class=quiet>No host started.</p>"
    lane_px, top = 34.0, 26.0
    height = top + lane_px * len(lanes) + BOTTOM
    x = Axis(low=0.0, high=max(1.0, story.seconds), from_px=LEFT + 50, to_px=WIDTH - RIGHT)
    row = {lane: top + lane_px * i for i, lane in enumerate(lanes)}
    sites = sorted({site for site, _ in lanes})
    start = story.from_ms

    def px(at_ms: int) -> float:
        return x.at(max(0, at_ms - start) / 1000)

    parts = [
        _text(x.at(t), height - BOTTOM + 18, f"{t:.0f} s", anchor="middle", kind="tick")
        for t in x.ticks(8)
    ]
    for done in story.rounds:
        at = px(done.at_ms)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top - 8}" y2="{height - BOTTOM}" class="round">'
            f"<title>round {done.number}: {', '.join(done.members)}; {done.tokens:,} tokens"
            f"{'; the last' if done.last else ''}</title></line>"
        )
    parts.extend(_text(LEFT + 42, y + 19, host, anchor="end") for (_, host), y in row.items())
    for life in story.lives:
        y, index = row[(life.site, life.host)], sites.index(life.site)
        width = max(2.0, px(life.to_ms) - px(life.from_ms))
        parts.append(
            f'<rect x="{px(life.from_ms):.1f}" y="{y + 6}" width="{width:.1f}" height="18" rx="3"'
            f' fill="{colour(index)}" opacity="0.75"><title>{escape(life.host)}, life'
            f" {life.incarnation}</title></rect>"
        )
    parts.extend(_marks(story, row, px_of=px))
    parts.append(
        _text(x.from_px, 12, "each thin line is a round; hover for its members", kind="tick")
    )
    return _svg(height, "".join(parts), "sites over time with rounds, faults and recoveries")


def _marks(
    story: "Story", row: dict[tuple[str, str], float], *, px_of: "Callable[[int], float]"
) -> list[str]:
    parts = []
    for mark in story.marks:
        for lane, y in row.items():
            if lane == (mark.site, mark.host) or (lane[0] == mark.site and not mark.host):
                bad = mark.what in FAULTS
                shape = "M-6,-6 L6,6 M-6,6 L6,-6" if bad else "M0,-7 L6,4 L-6,4 Z"
                parts.append(
                    f'<path d="{shape}" transform="translate({px_of(mark.at_ms):.1f},'
                    f'{y + 15})" class="{"bad" if bad else "good"}">'
                    f"<title>{escape(mark.words)}</title></path>"
                )
    return parts
