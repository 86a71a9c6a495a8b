"""A reader's own proof: every record served is checked before anyone acts on it. Pure."""

from collections.abc import Sequence

from argosy.core.errors import DamagedError
from argosy.core.records import Entry
from argosy.logbook.admission import Admission
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.envelope import entry_of, make_entry


class Following:
    """The log as this reader has seen it. What it has seen once can't be told otherwise later."""

    def __init__(self, authority: str) -> None:
        self._admission = Admission(authority)
        self._chains = [GENESIS]

    @property
    def seq(self) -> int:
        return self._admission.seq

    def take(self, first: int, before: str, raws: Sequence[bytes]) -> list[Entry]:
        """Entries of a batch that begins at most one after what was seen. Raises DamagedError."""
        assert first <= self.seq + 1, "a gap: read from the first record not yet seen"
        if before != self._chains[first - 1]:
            raise _other(first - 1)
        return [self._one(seq, raw) for seq, raw in enumerate(raws, first)]

    def _one(self, seq: int, raw: bytes) -> Entry:
        before = self._chains[seq - 1]
        if seq <= self.seq:
            entry = entry_of(seq, before, raw)
            if entry.chain != self._chains[seq]:
                raise _other(seq)
            return entry
        try:
            envelope, body = self._admission.check(raw)
        except DamagedError as wrong:
            raise DamagedError(f"record {seq}: {wrong.what}") from None
        self._admission.admit(envelope, body)
        self._chains.append(chain(before, raw))
        return make_entry(seq, self._chains[seq], envelope, body)


def _other(seq: int) -> DamagedError:
    return DamagedError(
        f"record {seq}: the logbook serves another one than before",
        hint="it was replaced or rolled back; argosy audit of its folder says where",
    )
