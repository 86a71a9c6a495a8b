"""Which attention kernel ran where a table does not say: the one its calibration rows show.

Scores that are kept (no fused kernel) cost memory that nothing else explains, so at each place
both kernels are tried on the calibration rows' peaks, and the likelier is kept for all rows there.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log

from rows import Measured

from argosy.planner.cost.forecast import Setup, calibrate_memory, memory_ranges


def settled(
    known: Sequence[Measured], tested: Sequence[Measured]
) -> tuple[list[Measured], list[Measured]]:
    """The rows with the kernel that the calibration rows of their place show."""
    weighed = [row for row in known if row.peak_gib and not row.told]
    chosen: dict[str, bool] = {}
    for place in sorted({row.timed.place for row in weighed}):
        mine = [row for row in weighed if row.timed.place == place]
        scores = {
            flash: _misfit([_with(row, flash) for row in mine], _others(known, mine, chosen))
            for flash in (True, False)
        }
        chosen[place] = min(scores, key=lambda flash: scores[flash])
    return [_settle(row, chosen) for row in known], [_settle(row, chosen) for row in tested]


def _others(
    known: Sequence[Measured], mine: Sequence[Measured], chosen: dict[str, bool]
) -> list[Measured]:
    return [_settle(row, chosen) for row in known if row.peak_gib and row not in mine]


def _misfit(rows: Sequence[Measured], others: Sequence[Measured]) -> float:
    """How far off the formulas stay when they are calibrated on all of these."""
    everything = [*rows, *others]
    calibrated = calibrate_memory(
        [row.weighed for row in everything], [row.peak_gib or 0.0 for row in everything]
    )
    raw = [replace(row.weighed, place="elsewhere") for row in rows]
    return sum(
        log(one.middle / (row.peak_gib or 1.0)) ** 2
        for one, row in zip(memory_ranges(calibrated, raw), rows, strict=True)
    )


def _settle(row: Measured, chosen: dict[str, bool]) -> Measured:
    flash = chosen.get(row.timed.place)
    return row if row.told or flash is None else _with(row, flash)


def _with(row: Measured, flash: bool) -> Measured:
    def changed(setup: Setup) -> Setup:
        return replace(setup, layout=replace(setup.layout, flash=flash))

    return replace(row, timed=changed(row.timed), weighed=changed(row.weighed))
