"""Which attention kernel ran where a table does not say: the one its calibration rows show.

Scores that are kept (no fused kernel) cost memory that nothing else explains, so at each place
both kernels are tried on the calibration rows' peaks, and the likelier is kept for all rows there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from rows import Measured

from argosy.planner.cost.calibration import Usual
from argosy.planner.cost.forecast import Setup, calibrate_memory, usual

SWEEPS = 2  # over the places, since what one shows depends on the others


def settled(
    known: Sequence[Measured], tested: Sequence[Measured]
) -> tuple[list[Measured], list[Measured]]:
    """The rows with the kernel that the calibration rows of their place show."""
    weighed = [row for row in known if row.peak_gib]
    places = sorted({row.timed.place for row in weighed if not row.told})
    chosen: dict[str, bool] = {}
    for _ in range(SWEEPS):
        for place in places:
            misfits = {
                flash: _misfit([_settle(row, chosen | {place: flash}) for row in weighed])
                for flash in (True, False)
            }
            chosen[place] = min(misfits, key=lambda flash: misfits[flash])
    return [_settle(row, chosen) for row in known], [_settle(row, chosen) for row in tested]


def _misfit(rows: Sequence[Measured]) -> float:
    """Twice the negative log of how probable these rows and the factors that fit them are.

    The formulas alone must explain the rows here: nothing is put down to a place or a layout.
    """
    found = calibrate_memory(
        [row.weighed for row in rows], [row.peak_gib or 0.0 for row in rows], prior=_plain()
    )
    unusual = (found.mean - found.usual.mean) / found.usual.spread
    return float(found.left @ found.precision @ found.left + unusual @ unusual)


@cache
def _plain() -> Usual:
    """The usual factors, with all that they miss taken for noise."""
    known = usual("memory")
    noise = (known.noise**2 + known.residual**2 + known.place**2) ** 0.5
    return replace(known, noise=noise, residual=1e-6, place=1e-6)


def _settle(row: Measured, chosen: Mapping[str, bool]) -> Measured:
    flash = chosen.get(row.timed.place)
    return row if row.told or flash is None else _with(row, flash)


def _with(row: Measured, flash: bool) -> Measured:
    def changed(setup: Setup) -> Setup:
        return replace(setup, layout=replace(setup.layout, flash=flash))

    return replace(row, timed=changed(row.timed), weighed=changed(row.weighed))
