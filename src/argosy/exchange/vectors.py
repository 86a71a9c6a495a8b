"""What a model is to the exchange: one flat fp32 vector, walked in stretches that fit the cache."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

STRETCH = 1 << 15  # values; a handful of fp32 stretches stay in a core's second-level cache


def stretches(size: int) -> Iterator[slice]:
    """Slices that cover 0..size. All arithmetic here is element-wise: the cut changes no bit."""
    for start in range(0, size, STRETCH):
        yield slice(start, min(start + STRETCH, size))
