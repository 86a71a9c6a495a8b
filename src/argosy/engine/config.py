"""What one engine process is told before it can ask the logbook: its worker.json."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIRED = ("run", "site", "host", "url", "keys", "data", "scratch")
ORPHAN_AFTER_S = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Workplace:
    """Where a host finds its logbook, its keys, its data and room for its snapshots."""

    run: str
    site: str
    host: str
    url: str
    keys: Path  # ca.pem, host.pem, host.key
    data: Path  # the data root; job paths are relative to it
    scratch: Path
    address: str = "127.0.0.1"  # where the other hosts of the site reach this one
    threads: int = 1
    server_name: str = "logbook"
    orphan_after_s: float = ORPHAN_AFTER_S  # without a controller: snapshot and leave


def read_workplace(path: Path) -> Workplace:
    """worker.json as `run` writes it; folders are relative to the file's own."""
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(
            f"cannot be read: {error}", where=str(path), hint="`argosy train` writes this file"
        ) from error
    missing = [name for name in REQUIRED if name not in values]
    if missing:
        raise SpecError(f"lacks {', '.join(missing)}", where=str(path))
    return workplace_of(values, path.parent)


def workplace_of(values: "Mapping[str, Any]", folder: Path) -> Workplace:
    known = {name: values[name] for name in Workplace.__slots__ if name in values}
    for name in ("keys", "data", "scratch"):
        known[name] = folder / known[name]
    return Workplace(**known)


def under_torchrun(place: Workplace, hosts: tuple[str, ...], rank: int) -> Workplace:
    """The workplace of one rank when several share a worker.json: folders end in the host's name.

    torchrun gives every rank the same command line, so the host is told by the rank.
    """
    from dataclasses import replace

    if rank >= len(hosts):
        raise SpecError(
            f"rank {rank}, but --hosts names {len(hosts)}",
            where="torchrun",
            hint="name one host for each rank, in rank order: --hosts a,b",
        )
    host = hosts[rank]
    if host == place.host:
        return place
    return replace(
        place,
        host=host,
        keys=place.keys.parent / host,
        scratch=_beside(place.scratch, place.host, host),
    )


def _beside(folder: Path, mine: str, other: str) -> Path:
    """The same folder of another host: its name replaced where it stands, else a folder inside."""
    parts = [other if part == mine else part for part in folder.parts]
    return Path(*parts) if mine in folder.parts else folder / other
