"""The logbook of the simulation: an order, blobs, and an idempotent append. It trusts everyone."""

from argosy.core.records import Body, Entry, Writer


class Refused(Exception):
    """A newer life of this host has written."""


class Server:
    def __init__(self, *, fences: bool) -> None:
        self.entries: list[Entry] = []
        self.blobs: dict[str, bytes] = {}
        self._fences = fences
        self._seqs: dict[tuple[Writer, int], int] = {}
        self._lives: dict[tuple[str, str], int] = {}

    def append(self, writer: Writer, counter: int, body: Body) -> int | None:
        """The record's seq, the same for the same counter; None before the writer's own turn."""
        if (writer, counter) in self._seqs:
            return self._seqs[writer, counter]
        who = (writer.site, writer.host)
        newest = self._lives.get(who, 0)
        if self._fences and writer.incarnation < newest:
            raise Refused
        if counter > 1 and (writer, counter - 1) not in self._seqs:
            return None
        self._lives[who] = max(newest, writer.incarnation)
        seq = len(self.entries) + 1
        self._seqs[writer, counter] = seq
        self.entries.append(
            Entry(
                seq=seq,
                chain=f"{seq}",
                writer=writer,
                counter=counter,
                at_ms=0,
                kind=type(body).__name__,
                body=body,
            )
        )
        return seq
