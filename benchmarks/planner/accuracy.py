"""How near the cost model comes to measured runs: `python benchmarks/planner/accuracy.py`.

A cluster is (source, gpu, gpus_per_node, framework). Of each, the first rows by row_id (as text)
calibrate the model, which then predicts the others. Rows that lack the figure are left out and
counted. `--rows FILE` reads other rows of the same columns.
"""

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median, quantiles

from rows import Key, Measured, read
from unsaid import settled

from argosy.catalog.factors import read_factors
from argosy.planner.cost.calibration import Bound, Usual
from argosy.planner.cost.forecast import (
    calibrate_memory,
    calibrate_time,
    memory_ranges,
    time_ranges,
    usual,
)

HERE = Path(__file__).resolve().parents[2]
ROWS = "planner/measured_training.csv"


Priors = tuple[Usual | None, Usual | None]  # of time and memory; None: the catalogue's


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A predicted row beside what was measured."""

    row: Measured
    seconds: float | None = None  # predicted, where the row has its figure
    gib: float | None = None
    fits: bool | None = None


def main() -> None:
    asked = _arguments()
    path = asked.rows or Path(os.environ.get("ARGOSY_DATA", HERE.parent / "shared/data")) / ROWS
    if not path.exists():
        sys.exit(
            f"NOT MEASURED: no rows at {path}. Say where they are with --rows FILE, or the folder"
            " that holds planner/ with ARGOSY_DATA."
        )
    priors = _priors(asked.usual)
    judged, tally = judge(read(path), asked.calibrate, priors)
    result = report(judged) | {"rows": tally}
    for name, of in (("source", _source), ("gpu", _gpu), ("cluster", _cluster)):
        groups: dict[str, list[Judged]] = defaultdict(list)
        for one in judged:
            groups[of(one)].append(one)
        result[f"by_{name}"] = {group: report(ones) for group, ones in sorted(groups.items())}
    _show(result, path)
    if asked.json:
        print(json.dumps(result))


def judge(
    rows: Iterable[Measured], calibrate: int, priors: Priors = (None, None)
) -> tuple[list[Judged], dict[str, int]]:
    """Every row after its cluster's first `calibrate`, predicted from those."""
    clusters: dict[Key, list[Measured]] = defaultdict(list)
    for row in rows:
        clusters[row.key].append(row)
    judged, tally = [], Counter[str]()
    for members in clusters.values():
        known, tested = settled(members[:calibrate], members[calibrate:])
        tally["calibration"] += len(known)
        tally["tested"] += len(tested)
        tally["without_step_time"] += sum(row.seconds is None for row in tested)
        tally["without_peak_memory"] += sum(row.peak_gib is None for row in tested)
        judged += _judge(known, tested, priors)
    return judged, dict(tally)


def _judge(known: Sequence[Measured], tested: Sequence[Measured], priors: Priors) -> list[Judged]:
    if not tested:
        return []
    timed = [row for row in known if row.seconds]
    weighed = [row for row in known if row.peak_gib or row.fits is not None]
    by_time = calibrate_time(
        [row.timed for row in timed], [row.seconds or 0.0 for row in timed], priors[0]
    )
    by_memory = calibrate_memory(
        [row.weighed if row.peak_gib else replace(row.weighed, whole_card=True) for row in weighed],
        [limit(row)[0] for row in weighed],
        [limit(row)[1] for row in weighed],
        priors[1],
    )
    gates = memory_ranges(by_memory, [replace(row.weighed, whole_card=True) for row in tested])
    times = time_ranges(by_time, [row.timed for row in tested])
    memories = memory_ranges(by_memory, [row.weighed for row in tested])
    return [
        Judged(
            row=row,
            seconds=seconds.middle if row.seconds else None,
            gib=gib.middle if row.peak_gib else None,
            fits=None if row.fits is None else gate.upper() <= row.timed.cluster.usable_gib,
        )
        for row, seconds, gib, gate in zip(tested, times, memories, gates, strict=True)
    ]


def limit(row: Measured) -> tuple[float, Bound]:
    """What a calibration row says of memory: its peak, or on which side of the card it was."""
    if row.peak_gib:
        return row.peak_gib, Bound.EXACT
    return row.timed.cluster.usable_gib, Bound.AT_MOST if row.fits else Bound.AT_LEAST


def report(judged: Sequence[Judged]) -> dict[str, object]:
    """Errors in percent of the measured figure. None where there is nothing to judge."""
    time = [_error(one.seconds, one.row.seconds) for one in judged if one.seconds is not None]
    memory = [_error(one.gib, one.row.peak_gib) for one in judged if one.gib is not None]
    ran = [one for one in judged if one.row.fits]
    failed = [one for one in judged if one.row.fits is False]
    return {
        "tested": len(time),
        "mape": _figure(mean, time),
        "median": _figure(median, time),
        "p90": _figure(lambda values: quantiles(values, n=10, method="inclusive")[-1], time),
        "memory_tested": len(memory),
        "memory_mean": _figure(mean, memory),
        "memory_median": _figure(median, memory),
        "fitted": len(ran),
        "did_not_fit": len(failed),
        "false_fits": sum(bool(one.fits) for one in failed),
        "false_rejects": sum(one.fits is False for one in ran),
    }


def _error(predicted: float, seen: float | None) -> float:
    assert seen
    return 100 * abs(predicted / seen - 1)


def _figure(of: Callable[[list[float]], float], values: list[float]) -> float | None:
    if not values:
        return None
    return round(values[0] if len(values) == 1 else of(values), 2)


def _source(one: Judged) -> str:
    return one.row.key[0]


def _gpu(one: Judged) -> str:
    return one.row.timed.cluster.card.name


def _cluster(one: Judged) -> str:
    return " | ".join(one.row.key)


def _show(result: dict[str, object], path: Path) -> None:
    print(f"{path}\n{'':74}  n  MAPE  med   p90 |   n  mem% | ran oom ff  fr")
    _line("all", result)
    for name in ("source", "gpu", "cluster"):
        groups = result[f"by_{name}"]
        assert isinstance(groups, dict)
        print(f"-- by {name}")
        for group, figures in groups.items():
            _line(group, figures)
    print(result["rows"])


def _line(name: str, of: dict[str, object]) -> None:
    def cell(key: str, width: int) -> str:
        value = of[key]
        return f"{'-' if value is None else value:>{width}}"

    print(
        f"{name[:70]:70} {cell('tested', 6)} {cell('mape', 6)} {cell('median', 6)}"
        f" {cell('p90', 6)} | {cell('memory_tested', 4)} {cell('memory_mean', 6)} |"
        f" {cell('fitted', 5)} {cell('did_not_fit', 3)} {cell('false_fits', 3)}"
        f" {cell('false_rejects', 4)}"
    )


def _priors(path: Path | None) -> Priors:
    if path is None:
        return None, None
    known = read_factors(path.read_text(encoding="utf-8"))
    return usual("time", known), usual("memory", known)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=Path, metavar="FILE", help="measured rows, CSV")
    parser.add_argument("--calibrate", type=int, default=12, metavar="N", help="rows per cluster")
    parser.add_argument("--usual", type=Path, metavar="FILE", help="other usual factors")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser.parse_args()


if __name__ == "__main__":
    main()
