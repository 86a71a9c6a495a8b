"""What crossed each link by the logbook, against the relay's own count. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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

# HTTP and TLS around each record's own bytes: the writer's request, each reader's long poll, their
# answers. Measured over 771 records of a lab run: 80 to 210 bytes in each direction, 2026-11-30.
OVERHEAD_PER_RECORD = 400
OVERHEAD_PER_CONNECTION = 8_000  # the handshake of mutual TLS


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
    """Hosts that start before there is any fetch the first one."""
    newest = total = waiting = 0
    for entry in entries:
        if isinstance(entry.body, Checkpointed):
            newest = entry.body.bytes
            total += waiting * newest
            waiting = 0
        elif isinstance(entry.body, HostStarted) and entry.writer.site == site:
            total += newest
            waiting += newest == 0
    return total


def counters_agree(
    entries: Sequence[Entry],
    counters: Mapping[str, Mapping[str, int]],
    before: Mapping[str, Mapping[str, int]],
    *,
    within: float = 0.05,
    disturbed: Collection[str] = (),
) -> Judgement:
    """Both ways, for each site: not less than the updates that the log names, and not more than
    all it says plus `within` and the overheads above.

    `before`: what the relay had counted when training began, for the links had been measured.
    `disturbed`: sites that were away for some rounds, and may never have fetched them.
    """
    expected = crossed(entries)
    for site, said in sorted(expected.items()):
        if site not in counters:
            return Unknown(why=f"the relay did not count {site}")
        counted = {
            what: counters[site][what] - before.get(site, {}).get(what, 0)
            for what in ("up", "down", "opened")
        }
        own = sum(entry.writer.site == site for entry in entries)
        hosts = len({e.writer.host for e in entries if e.writer.site == site})
        overhead = OVERHEAD_PER_RECORD * (own + hosts * len(entries))
        overhead += OVERHEAD_PER_CONNECTION * counted["opened"]
        up, down = said.up_updates, said.down_updates
        # A host that has kept its state, or was killed while it fetched, takes no checkpoint.
        for way, least, blobs, records in (
            ("up", up, up, said.up_records),
            (
                "down",
                0 if site in disturbed else down,
                down + said.down_checkpoints,
                said.down_records,
            ),
        ):
            lowest, most = (1 - within) * least, (1 + within) * blobs + records + overhead
            if not lowest <= counted[way] <= most:
                return Bad(
                    why=f"{site} {way}: the relay counted {counted[way]} bytes, the logbook allows"
                    f" {lowest:.0f} to {most:.0f}"
                )
    return OK if expected else Unknown(why="no host started")
