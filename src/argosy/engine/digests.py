"""Whether the agreed model held here is the agreed one: by its digest, round for round. Pure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.core.records import Commit

SMALL = 32 << 20  # parameters: up to here a digest after every round is not felt
EVERY = 5  # rounds, above
REMEMBERED = 100  # rounds that wait for their counterpart


def due(parameters: int, commit: "Commit") -> bool:
    return parameters <= SMALL or commit.last or commit.round % EVERY == 0


class Digests:
    """Ours against the reference, which is replay beside the logbook and never a vote."""

    def __init__(self) -> None:
        self.wrong: str | None = None  # said once a digest differs
        self._ours: dict[int, str] = {}
        self._reference: dict[int, str] = {}

    def hold(self, round_: int, digest: str) -> None:
        """What this site holds."""
        self._ours[round_] = digest
        self._ours.pop(round_ - REMEMBERED, None)
        self._compare(round_)

    def refer(self, round_: int, digest: str) -> None:
        """What it should be."""
        self._reference[round_] = digest
        self._reference.pop(round_ - REMEMBERED, None)
        self._compare(round_)

    def cleared(self) -> "Digests":
        """After going back: what was held before says nothing about what is held now."""
        fresh = Digests()
        fresh._reference = self._reference
        return fresh

    def _compare(self, round_: int) -> None:
        ours, reference = self._ours.get(round_), self._reference.get(round_)
        if ours is not None and reference is not None and ours != reference:
            self.wrong = f"the model of round {round_} is not the agreed one"
