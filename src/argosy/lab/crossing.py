"""What crossed each link by the logbook, against the relay's own count. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.core.records import (
    CONTROLLER,
    Checkpointed,
    Commit,
    Contribution,
    Entry,
    HostStarted,
)
from argosy.lab.checkers import OK, Bad, Judgement, Unknown

# One record costs its writer a request and each reader an answer: HTTP and TLS around the record's
# own bytes, the question that waits for it, acknowledgements of the same, and a share of handshakes.
OVERHEAD_PER_RECORD = 3_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossed:
    """Bytes over one site's link, by form."""

    up_updates: int = 0
    up_records: int = 0
    down_updates: int = 0  # of the other members of each round
    down_checkpoints: int = 0  # one for each life of each host
    down_records: int = 0


def crossed(entries: Sequence[Entry]) -> dict[str, Crossed]:
    """What the logbook says must have gone over each site's link."""
    started = [e for e in entries if isinstance(e.body, HostStarted)]
    hosts = {e.writer.site: set[str]() for e in started if e.writer.site != CONTROLLER}
    for entry in started:
        if entry.writer.site in hosts:
            hosts[entry.writer.site].add(entry.writer.host)
    posts = {
        (e.writer.site, e.body.fragment, e.body.n): sum(s.bytes for s in e.body.shards)
        for e in entries
        if isinstance(e.body, Contribution)
    }
    commits = [entry.body for entry in entries if isinstance(entry.body, Commit)]
    whole = sum(len(entry.raw) for entry in entries)
    written = Counter[str]()
    for entry in entries:
        written[entry.writer.site] += len(entry.raw)
    return {
        site: Crossed(
            up_updates=sum(size for (of, _, _), size in posts.items() if of == site),
            up_records=written[site],
            down_updates=sum(
                posts[m.site, commit.fragment, m.n]
                for commit in commits
                for m in commit.members
                if m.site != site
            ),
            down_checkpoints=_checkpoints(entries, site),
            down_records=whole * len(hosts[site]),
        )
        for site in hosts
    }


def _checkpoints(entries: Sequence[Entry], site: str) -> int:
    newest = total = 0
    for entry in entries:
        if isinstance(entry.body, Checkpointed):
            newest = entry.body.bytes
        elif isinstance(entry.body, HostStarted) and entry.writer.site == site:
            total += newest
    return total


def counters_agree(
    entries: Sequence[Entry],
    counters: Mapping[str, Mapping[str, int]],
    before: Mapping[str, Mapping[str, int]],
    *,
    within: float = 0.05,
    per_record: int = OVERHEAD_PER_RECORD,
) -> Judgement:
    """Both ways, for each site: not less than what the log says crossed, and not more than so much
    above it. `before`: what the relay had counted when training began (links had been measured)."""
    expected = crossed(entries)
    for site, said in sorted(expected.items()):
        if site not in counters:
            return Unknown(why=f"the relay did not count {site}")
        own = sum(entry.writer.site == site for entry in entries)
        hosts = len({e.writer.host for e in entries if e.writer.site == site})
        asked = len(entries) * hosts
        for way, blobs, records, requests in (
            ("up", said.up_updates, said.up_records, own + asked),
            ("down", said.down_updates + said.down_checkpoints, said.down_records, own + asked),
        ):
            counted = counters[site][way] - before.get(site, {}).get(way, 0)
            most = (1 + within) * blobs + records + per_record * requests
            least = (1 - within) * (blobs - (said.down_checkpoints if way == "down" else 0))
            if not least <= counted <= most:
                return Bad(
                    why=f"{site} {way}: the relay counted {counted} bytes, the logbook allows"
                    f" {least:.0f} to {most:.0f}"
                )
    return OK if expected else Unknown(why="no host started")
