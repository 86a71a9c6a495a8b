"""How strongly each row of a model is pulled at each site, so that a majority outvotes nobody.

AdamW divides every gradient by its own size. One place with all data divides all of them by one
size; sites divide each by their own. A row that matters to one site's data only (the bytes of its
script, say) is then pulled at full strength there and pushed back at full strength everywhere else,
though the gradients there are next to nothing, and the mean of the updates follows the majority.

So a site tells, with each update, the mean second moment of each row: a byte for a row, far less
than the update. Where a row's gradients are small against the mean over the sites, the site moves
it less, where they are large, more: as if all divided by the same size. Only the pace of the local
steps depends on this, never the agreed model, so it need not be exact.

A row is all that has the same first index, of a matrix; a vector's values are rows of their own.
"""

import numpy as np

from argosy.exchange.packing import Bytes
from argosy.exchange.vectors import Vector

STEPS_PER_OCTAVE = 2  # a level is half an octave of a second moment: 9 % of a pace
NOTHING = 255  # the level of a row without gradients
SLOWEST = 1.0 / 16.0  # a row that was quiet so far may still be needed


def levels(moments: Vector) -> Bytes:
    """A byte for each row's mean second moment, which is 0 or more: -2 log2 of it, rounded."""
    with np.errstate(divide="ignore"):
        octaves = -np.log2(moments.astype(np.float64))
    steps = np.rint(octaves * np.float64(STEPS_PER_OCTAVE))
    return np.maximum(np.minimum(steps, np.float64(NOTHING)), np.float64(0)).astype(np.uint8)


def moments_of(levels: Bytes) -> Vector:
    """The second moments that levels stand for."""
    moments = np.exp2(-levels.astype(np.float32) / np.float32(STEPS_PER_OCTAVE))
    return np.where(levels == NOTHING, np.float32(0), moments).astype(np.float32)


def paces(own: Vector, others: list[Vector]) -> Vector:
    """By what a site multiplies its steps in each row: the root of its own second moment over the
    mean of all sites'. From SLOWEST to the root of the number of sites; 1 where nobody has any."""
    every = np.stack([own, *others]).astype(np.float64)
    mean = every.mean(axis=0)
    some = mean > 0
    share = np.where(some, every[0] / np.where(some, mean, np.float64(1)), np.float64(1))
    return np.maximum(np.sqrt(share), np.float64(SLOWEST)).astype(np.float32)
