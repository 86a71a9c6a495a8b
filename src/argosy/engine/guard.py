"""What to do with a step whose loss or gradient is no number. Pure."""

import math
from enum import StrEnum

IN_A_ROW = 3


class Ruling(StrEnum):
    TAKE = "take"
    SKIP = "skip"
    ROLL_BACK = "roll back"


class Guard:
    """Counts the broken steps since the last good one; after `in_a_row` the site rolls back."""

    def __init__(self, in_a_row: int = IN_A_ROW) -> None:
        self._limit = in_a_row
        self.broken = 0

    def rule(self, loss: float, norm: float) -> Ruling:
        if math.isfinite(loss) and math.isfinite(norm):
            self.broken = 0
            return Ruling.TAKE
        self.broken += 1
        if self.broken < self._limit:
            return Ruling.SKIP
        self.broken = 0
        return Ruling.ROLL_BACK
