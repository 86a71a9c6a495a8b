"""The measures of a run as tables for other tools: CSV files, and TensorBoard where installed."""

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

from argosy.core.errors import UserError
from argosy.core.records import Commit, Entry, Evaluation, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One value of one series. `step` is tokens trained at the site for progress, else the round."""

    at_ms: int
    series: str
    who: str  # the site, or the source
    step: int
    value: float


MEASURES = (
    "loss", "tokens_per_s", "compute_s", "encode_s", "apply_s", "wait_s", "longest_gap_s",
)  # fmt: skip


def points(entries: "Iterable[Entry]") -> list[Point]:
    """Every measured value, in the order of the log."""
    found: list[Point] = []
    for entry in entries:
        match entry.body:
            case Progress() as p:
                found.extend(
                    Point(
                        at_ms=entry.at_ms,
                        series=f"train/{name}",
                        who=entry.writer.site,
                        step=p.trained,
                        value=getattr(p, name),
                    )
                    for name in MEASURES
                )
            case Evaluation() as e:
                found.append(
                    Point(
                        at_ms=entry.at_ms,
                        series="evaluation/bits_per_byte",
                        who=e.source,
                        step=e.round,
                        value=e.bits_per_byte,
                    )
                )
            case Commit() as c:
                found.append(
                    Point(
                        at_ms=entry.at_ms,
                        series="round/members",
                        who="run",
                        step=c.round,
                        value=float(len(c.members)),
                    )
                )
            case _:
                pass
    return found


def write_csv(found: "Iterable[Point]", path: "Path") -> None:
    """One row per point: at_ms, series, who, step, value. Written `.part`, then renamed."""
    part = path.with_suffix(path.suffix + ".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("at_ms", "series", "who", "step", "value"))
        table.writerows((p.at_ms, p.series, p.who, p.step, repr(p.value)) for p in found)
    part.rename(path)


def write_tensorboard(found: "Iterable[Point]", folder: "Path") -> None:
    """Event files, one run per site or source. Raises UserError without `argosy[tensorboard]`."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise UserError(
            "TensorBoard files need the package tensorboardX",
            hint="pip install 'argosy[tensorboard]', or use the CSV file alone",
        ) from None
    writers: dict[str, SummaryWriter] = {}
    for p in found:
        if p.who not in writers:
            writers[p.who] = SummaryWriter(str(folder / p.who))
        writers[p.who].add_scalar(p.series, p.value, p.step, walltime=p.at_ms / 1000)
    for writer in writers.values():
        writer.close()
