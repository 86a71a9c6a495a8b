"""Fits what factors usually are (catalog/factors.csv): `python benchmarks/planner/usual.py`.

From neutral values, or those of --start FILE, it changes one number at a time (a factor's mean or spread, the noise, how much
is alike) and keeps what lowers the error on rows that did not calibrate, every source counting the
same. `--without NAME` leaves sources out whose name begins so: what is then fitted has never seen
them, and accuracy.py --usual FILE judges it on them.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import exp
from pathlib import Path
from statistics import mean

import numpy as np
from accuracy import HERE, ROWS
from rows import Key, Measured, read
from unsaid import settled

from argosy.catalog.factors import read_factors
from argosy.planner.cost.calibration import Forecast, Points, Usual, Vector, calibrate
from argosy.planner.cost.factors import Factors
from argosy.planner.cost.forecast import memory_of, points, seconds_of, usual
from argosy.planner.cost.memory import MemoryFactors

CALIBRATE = 12
TESTED = 60  # rows of a cluster at most, evenly taken
WORST = 0.6  # an error beyond counts as this: a row that is something else than it says
SCALARS = ("noise", "residual", "reach", "place")
FIRST_STEP = 0.4
LEAST, MOST = 0.05, 1.2  # of a spread


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One cluster: what calibrates it, and what is then predicted."""

    source: str
    known: Forecast
    figures: Vector
    points: Points
    tested: Forecast
    seen: Vector
    at: Points


def main() -> None:
    asked = _arguments()
    rows = [
        row
        for row in read(asked.rows)
        if not any(row.key[0].startswith(name) for name in asked.without)
    ]
    found = {
        figure: fitted(figure, cases(figure, rows), asked.passes, _start(figure, asked.start))
        for figure in asked.figures
    }
    for figure in ("time", "memory"):
        found.setdefault(figure, usual(figure))
    asked.out.write_text(_table(found), encoding="utf-8")


def cases(figure: str, rows: Sequence[Measured]) -> list[Case]:
    clusters: dict[Key, list[Measured]] = defaultdict(list)
    for row in rows:
        clusters[row.key].append(row)
    found = []
    for key, members in clusters.items():
        known, tested = settled(members[:CALIBRATE], members[CALIBRATE:])
        known, tested = _with(figure, known), _with(figure, tested)
        tested = tested[:: max(1, len(tested) // TESTED)]
        if tested:
            found.append(_case(figure, key[0], known, tested))
    return found


def _with(figure: str, rows: Sequence[Measured]) -> list[Measured]:
    return [row for row in rows if (row.seconds if figure == "time" else row.peak_gib)]


def _case(figure: str, source: str, known: Sequence[Measured], tested: Sequence[Measured]) -> Case:
    of = seconds_of if figure == "time" else memory_of

    def parts(rows: Sequence[Measured]) -> tuple[Forecast, Vector, Points]:
        setups = [row.timed if figure == "time" else row.weighed for row in rows]
        seen = [(row.seconds if figure == "time" else row.peak_gib) or 0.0 for row in rows]
        return of(setups), np.array(seen, dtype=np.float64), points(setups)

    forecast, figures, at = parts(known)
    later, seen, there = parts(tested)
    return Case(
        source=source,
        known=forecast,
        figures=figures,
        points=at,
        tested=later,
        seen=seen,
        at=there,
    )


def error(prior: Usual, judged: Sequence[Case]) -> float:
    """Mean error of the sources, and a tenth of how surprising their rows were."""
    errors: dict[str, list[float]] = defaultdict(list)
    surprises: dict[str, list[float]] = defaultdict(list)
    for case in judged:
        calibrated = calibrate(prior, case.known, case.figures, case.points)
        middle, doubt = calibrated.predict(case.tested, case.at)
        apart = middle - np.log(case.seen)
        errors[case.source] += np.minimum(np.abs(np.expm1(apart)), np.array(WORST)).tolist()
        surprise = np.minimum(np.abs(apart) / doubt, np.array(4.0)) ** 2 / 2 + np.log(doubt)
        surprises[case.source] += surprise.tolist()
    return mean(map(mean, errors.values())) + 0.01 * mean(map(mean, surprises.values()))


def _start(figure: str, path: Path | None) -> Usual:
    """The values in a file, or neutral ones."""
    if path is not None:
        return usual(figure, read_factors(path.read_text(encoding="utf-8")))
    count = len(fields(Factors if figure == "time" else MemoryFactors))
    return Usual(
        mean=np.zeros(count),
        spread=np.full(count, 0.4),
        noise=0.06,
        residual=0.1,
        reach=6.0,
        place=0.1,
    )


def fitted(figure: str, judged: Sequence[Case], passes: int, best: Usual) -> Usual:
    """Coordinate search, in steps that halve with every pass."""
    count = len(best.mean)
    least = error(best, judged)
    for turn in range(passes):
        step = FIRST_STEP / 2**turn
        for tried in _changes(count):
            for direction in (1, -1):
                other = _moved(best, *tried, direction * step)
                if (found := error(other, judged)) < least - 1e-5:
                    best, least = other, found
                    break
        print(f"{figure} pass {turn + 1}: {least:.4f}", flush=True)
    return best


def _changes(count: int) -> list[tuple[str, int]]:
    return [
        *((name, index) for name in ("mean", "spread") for index in range(count)),
        *((name, 0) for name in SCALARS),
    ]


def _moved(prior: Usual, name: str, index: int, step: float) -> Usual:
    """One number changed: a mean by `step`, anything else by exp(step)."""
    match name:
        case "mean":
            moved = prior.mean.copy()
            moved[index] += step
            return replace(prior, mean=moved)
        case "spread":
            moved = prior.spread.copy()
            moved[index] = min(MOST, max(LEAST, moved[index] * exp(step)))
            return replace(prior, spread=moved)
        case "noise":
            return replace(prior, noise=max(0.02, prior.noise * exp(step)))
        case "residual":
            return replace(prior, residual=max(0.02, prior.residual * exp(step)))
        case "reach":
            return replace(prior, reach=prior.reach * exp(step))
        case _:
            return replace(prior, place=max(0.02, prior.place * exp(step)))


def _table(found: dict[str, Usual]) -> str:
    lines = ["figure,factor,mean,spread"]
    for figure, kind in (("time", Factors), ("memory", MemoryFactors)):
        prior = found[figure]
        for index, field in enumerate(fields(kind)):
            lines.append(f"{figure},{field.name},{prior.mean[index]:.3g},{prior.spread[index]:.3g}")
        lines += [f"{figure},{name},0,{getattr(prior, name):.3g}" for name in SCALARS]
    return "\n".join(lines) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    data = Path(os.environ.get("ARGOSY_DATA", HERE.parent / "shared/data"))
    parser.add_argument("--rows", type=Path, default=data / ROWS, help="measured rows, CSV")
    parser.add_argument("--without", nargs="*", default=(), metavar="SOURCE", help="left out")
    parser.add_argument("--figures", nargs="*", default=("time", "memory"))
    parser.add_argument("--start", type=Path, metavar="FILE", help="begin from these factors")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
