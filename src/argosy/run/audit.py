"""The proof of a run, recomputed from its folder: ok, or the first record that is wrong."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from argosy.core.records import CONTROLLER, Checkpointed, Commit, Digest, Ended, Entry
from argosy.exchange.agreement import Agreement
from argosy.exchange.replay import Replay
from argosy.logbook import open_log
from argosy.logbook.blobs import BlobFolder
from argosy.logbook.verify import Wrong, first_wrong
from argosy.run.folder import RunFolder
from argosy.run.model import payload, vectors
from argosy.run.residency import Residency

UNCHECKED = (
    "; no authority from outside was checked, for keys/ca/ca.pem is not there: a logbook forged from"
    " its first record on would pass as well"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How much was looked at."""

    records: int = 0
    rounds: int = 0
    replayed: int = 0  # rounds recomputed with NumPy, from the initial model on
    contributions: int = 0
    accesses: int = 0
    void: int = 0  # records that count for nobody, such as those of a replaced controller
    deviations: int = 0  # times a site held another model than the agreed one, and reloaded


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    first_wrong: Wrong | None
    counts: Counts
    authority_checked: bool = True  # against the one in keys/, which a forger of the log lacks

    @property
    def ok(self) -> bool:
        return self.first_wrong is None

    def to_json(self) -> dict[str, object]:
        wrong = self.first_wrong.to_json() if self.first_wrong else None
        told = {"ok": self.ok, "first_wrong": wrong, "authority_checked": self.authority_checked}
        return {**told, **asdict(self.counts)}

    def __str__(self) -> str:
        counts, wrong = self.counts, self.first_wrong
        if wrong is None:
            return (
                f"ok: {counts.records} records, {counts.rounds} rounds, {counts.replayed} replayed,"
                f" {counts.contributions} contributions, {counts.accesses} accesses to sources"
                f"{'' if self.authority_checked else UNCHECKED}"
            )
        place = f"record {wrong.seq} ({wrong.kind})" if wrong.seq else "the logbook"
        return f"wrong: {place}, {wrong.what}: expected {wrong.expected}, found {wrong.found}"


def audit(folder: RunFolder) -> Audit:
    """Chain, signatures and blobs; then membership, residency, and the agreed model itself."""
    authority = folder.authority / "ca.pem"
    known = authority.read_text(encoding="utf-8") if authority.is_file() else None
    wrong = first_wrong(folder.logbook, authority=known)
    if wrong is not None:
        counts = Counts(records=max(0, wrong.seq - 1))
        return Audit(first_wrong=wrong, counts=counts, authority_checked=known is not None)
    log = open_log(folder.logbook)
    try:
        found = audit_entries(log.entries(), BlobFolder(log.blobs))
        return replace(found, authority_checked=known is not None)
    finally:
        log.close()


def audit_entries(entries: Iterable[Entry], blobs: BlobFolder) -> Audit:
    """The part that needs records of known origin: who was agreed with, what went where."""
    told = list(entries)
    agreement, residency = Agreement(), Residency()
    for entry in told:
        void = len(agreement.void)
        agreement.hear(entry)
        reason = agreement.void[-1][1] if len(agreement.void) > void else None
        wrong = _membership(entry, agreement, reason) or residency.hear(entry)
        if wrong is not None:
            return Audit(first_wrong=wrong, counts=_counts(told[: entry.seq - 1], agreement))
    again = _Again(told, agreement, blobs)
    wrong = again.first_wrong()
    counts = _counts(told, agreement, replayed=again.round, deviations=len(again.deviations))
    return Audit(first_wrong=wrong, counts=counts)


def _membership(entry: Entry, agreement: Agreement, void: str | None) -> Wrong | None:
    """Commits that count are what the records before them allow; the end says what was agreed."""
    match entry.body:
        case Commit() as commit if void is not None:
            leads = entry.writer == agreement.leader and commit.term == agreement.term
            if leads:  # one that was replaced may have written late; sites pass it over
                return _wrong(entry, "membership", "a commit that counts", void)
        case Ended() as ended:
            agreed = (agreement.round(), agreement.tokens())
            if (ended.rounds, ended.tokens) != agreed:
                expected = f"{agreed[0]} rounds, {agreed[1]} tokens"
                found = f"{ended.rounds} rounds, {ended.tokens} tokens"
                return _wrong(entry, "membership", expected, found)
        case Checkpointed(round=number, at_seq=seq) if number > 0:
            commits = agreement.commits[0]
            at = commits[number - 1][0] if number <= len(commits) else None
            if seq != at:
                return _wrong(entry, "membership", f"round {number} at record {at}", f"{seq}")
        case _:
            pass
    return None


class _Again:
    """The agreed model, computed once more from the initial one: a judge that asks nobody."""

    def __init__(self, entries: list[Entry], agreement: Agreement, blobs: BlobFolder) -> None:
        self._entries = entries
        self._agreement = agreement
        self._blobs = blobs
        self._told: dict[int, list[Entry]] = {}  # round -> who says what the model is then
        self.round = 0
        self.deviations: dict[str, Entry] = {}

    def first_wrong(self) -> Wrong | None:
        for entry in self._entries:
            if isinstance(entry.body, Digest | Checkpointed):
                self._told.setdefault(entry.body.round, []).append(entry)
        wrongs = [wrong for wrong in self._wrongs() if wrong]
        return min(wrongs, key=lambda wrong: wrong.seq, default=None)

    def _wrongs(self) -> Iterator[Wrong | None]:
        initial = next((e for e in self._told.get(0, []) if isinstance(e.body, Checkpointed)), None)
        if initial is None or not isinstance(initial.body, Checkpointed):
            return
        a, v = vectors(self._blobs, initial.body)
        replay = Replay(a, v, 0)
        yield from self._compare(replay)
        for _, commit in self._agreement.commits[0]:
            payloads = {m.site: self._payload(m.site, m.n) for m in commit.members}
            replay.apply(commit, self._agreement.plans[commit.plan], payloads)
            self.round = replay.round
            yield from self._compare(replay)

    def _compare(self, replay: Replay) -> Iterator[Wrong | None]:
        """The reference and the checkpoints must be it; a site that was not reloads, and says so."""
        found = replay.digest()
        for entry in self._told.get(replay.round, []):
            assert isinstance(entry.body, Digest | Checkpointed)
            if entry.body.digest == found:
                continue
            last = self._agreement.last() and replay.round == self._agreement.round()
            if entry.writer.site == CONTROLLER or last:
                yield _wrong(entry, "model", found, entry.body.digest)
            self.deviations[f"{entry.writer.site}/{replay.round}"] = entry

    def _payload(self, site: str, n: int) -> bytes:
        post = self._agreement.post(site, n)
        assert post is not None, "a commit that counts names posts that count"
        return payload(self._blobs, post.body)


def _counts(
    entries: list[Entry], agreement: Agreement, *, replayed: int = 0, deviations: int = 0
) -> Counts:
    kinds = [entry.kind for entry in entries]
    return Counts(
        records=len(entries),
        rounds=agreement.round(),
        replayed=replayed,
        contributions=kinds.count("contribution"),
        accesses=kinds.count("access"),
        void=len(agreement.void),
        deviations=deviations,
    )


def _wrong(entry: Entry, what: str, expected: str, found: str) -> Wrong:
    return Wrong(seq=entry.seq, kind=entry.kind, what=what, expected=expected, found=found)
