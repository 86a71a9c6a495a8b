"""A run on the terminal: one refreshed block with progress, sites, losses and the last events."""

from typing import TYPE_CHECKING

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from argosy.observe.charts import FAULTS, duration, number, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from argosy.observe.story import SiteStory, Story

QUIET_AFTER_S = 20.0  # a site that has not written for so long is shown as quiet


def live(story: "Story", *, target_tokens: int, now_ms: int, events: int = 6) -> "RenderableType":
    """The block that `train` and `watch` refresh; `now_ms` is wall time for ages and the ETA."""
    return Group(
        _head(story, target_tokens, now_ms),
        _sites(story, now_ms),
        _losses(story),
        *_events(story, events),
    )


def eta_s(story: "Story", target_tokens: int, now_ms: int) -> float | None:
    """Seconds left at the pace since the first host started; None before the first round."""
    if not story.rounds or not story.lives or story.outcome != "running":
        return None
    begun = min(life.from_ms for life in story.lives)
    pace = story.tokens / max(1e-3, (story.rounds[-1].at_ms - begun) / 1000)
    left = max(0, target_tokens - story.tokens) / max(pace, 1e-9)
    return max(0.0, left - max(0, now_ms - story.rounds[-1].at_ms) / 1000)


def _head(story: "Story", target_tokens: int, now_ms: int) -> "RenderableType":
    left = eta_s(story, target_tokens, now_ms)
    line = Text.assemble(
        (story.name or "run", "bold"),
        f"  round {len(story.rounds)}",
        f"  {number(story.tokens)} of {number(target_tokens)} tokens",
        f"  {duration(max(0, now_ms - story.from_ms) / 1000)}" if story.from_ms else "",
        f"  about {duration(left)} left" if left is not None else "",
        ("" if story.outcome == "running" else f"  {story.outcome}"),
    )
    bar = ProgressBar(total=max(1, target_tokens), completed=min(story.tokens, target_tokens))
    return Group(line, bar)


def state_of(site: "SiteStory", story: "Story", now_ms: int) -> str:
    """What a person should think of a site now: the last fault or return, else its age."""
    for mark in reversed(story.marks):
        if mark.site == site.site:
            if mark.what in FAULTS:
                return mark.what if mark.what != "fault" else mark.text
            break
    if not site.last_ms:
        return "starting"
    age = (now_ms - site.last_ms) / 1000
    return f"quiet for {age:.0f} s" if age > QUIET_AFTER_S else "training"


def _sites(story: "Story", now_ms: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in (
        ("site", "left"), ("", "left"), ("hosts", "right"), ("tokens/s", "right"),
        ("rounds", "right"), ("up", "right"), ("down", "right"), ("waited", "right"),
    ):  # fmt: skip
        table.add_column(name, justify="right" if justify == "right" else "left")
    for site in story.sites:
        state = state_of(site, story, now_ms)
        colour = "green" if state == "training" else "yellow" if "start" in state else "red"
        busy = site.computed_s + site.waited_s
        table.add_row(
            f"{site.site} ({site.country})",
            Text(state, style=colour),
            str(len(site.hosts)),
            number(site.tokens_per_s),
            f"{site.rounds_in}",
            size(site.payload_up),
            size(site.payload_down),
            f"{site.waited_s / busy:.1%}" if busy else "-",
        )
    return table


def _losses(story: "Story") -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("source", "bits per byte", "at first", ""):
        table.add_column(name)
    for source, seen in story.losses:
        values = [value for _, value in seen]
        table.add_row(source, f"{values[-1]:.3f}", f"{values[0]:.3f}", sparkline(values))
    return table


def sparkline(values: list[float], width: int = 40) -> str:
    """The last `width` values as eight heights of block."""
    shown, blocks = values[-width:], "▁▂▃▄▅▆▇█"
    low, span = min(shown), (max(shown) - min(shown)) or 1.0
    return "".join(blocks[round((v - low) / span * 7)] for v in shown)


def _events(story: "Story", count: int) -> list[Text]:
    return [
        Text(
            f"{max(0, mark.at_ms - story.from_ms) / 1000:7.1f} s  {mark.words}",
            style="red" if mark.what in FAULTS else "dim",
        )
        for mark in story.marks[-count:]
    ]
