"""The agreed model from the log: the newest checkpoint that is whole, and the commits after it."""

import logging
import time
from typing import TYPE_CHECKING

from argosy.core.errors import DamagedError, HostError
from argosy.core.records import CONTROLLER, Checkpointed
from argosy.engine.checkpoint_blob import Checkpoint, unpack
from argosy.exchange.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.core.records import Entry
    from argosy.engine.inbox import Payloads
    from argosy.exchange.agreement import Agreement
    from argosy.logbook import Logbook

log = logging.getLogger(__name__)

PAUSE_S = 1.0


class Checkpoints:
    """The checkpoints that the log names, newest last."""

    def __init__(self, logbook: "Logbook", tell: "Callable[[str], None]") -> None:
        """`tell` says to people that a checkpoint was damaged."""
        self._logbook = logbook
        self._tell = tell
        self._known: list[Checkpointed] = []

    def hear(self, entry: "Entry") -> None:
        if isinstance(entry.body, Checkpointed) and entry.writer.site == CONTROLLER:
            self._known.append(entry.body)

    @property
    def any(self) -> bool:
        return bool(self._known)

    def fetch(self, within_s: float, up_to: int) -> Checkpoint:
        """The newest whole one of a round that is agreed (`up_to`)."""
        deadline = time.monotonic() + within_s
        for record in sorted(self._known, key=lambda known: known.round, reverse=True):
            if record.round > up_to:
                continue
            try:
                blob = _patiently(lambda: self._logbook.get(record.blob), deadline)  # noqa: B023
                checkpoint = unpack(blob, where=f"checkpoint of round {record.round}")
                if checkpoint.digest != record.digest or checkpoint.round != record.round:
                    raise DamagedError("it is not the model that its record names")
            except DamagedError as error:
                self._tell(
                    f"the checkpoint of round {record.round} is damaged ({error.what});"
                    " the one before is used"
                )
                continue
            return checkpoint
        raise DamagedError(
            "no checkpoint is whole",
            where="logbook",
            hint="`argosy audit` says which blobs are damaged; restore them from a copy",
        )


def replayed(
    checkpoint: Checkpoint, agreement: "Agreement", payloads: "Payloads", within_s: float
) -> Replay:
    """The checkpoint carried over every commit that the agreement knows."""
    deadline = time.monotonic() + within_s
    replay = Replay(checkpoint.a, checkpoint.v, checkpoint.round)
    for _, commit in agreement.commits[0][checkpoint.round :]:
        named = {
            member.site: _patiently(lambda: payloads.get(member), deadline)  # noqa: B023
            for member in commit.members
        }
        replay.apply(commit, agreement.plans[commit.plan], named)
        payloads.forget(commit)
    return replay


def _patiently(fetch: "Callable[[], bytes]", deadline: float) -> bytes:
    """Again and again while the logbook is away. What is damaged is not asked for for ever."""
    while True:
        try:
            return fetch()
        except HostError as error:
            if time.monotonic() > deadline:
                raise
            log.warning("%s; trying again", error)
            time.sleep(PAUSE_S)
