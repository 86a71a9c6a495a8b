"""What the relay process is told before it starts: a file, so that its next life is the same."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from argosy.core.errors import SpecError


@dataclass(frozen=True, kw_only=True, slots=True)
class RelaySite:
    """One site's link, the same both ways until a command says otherwise."""

    site: str
    port: int  # 0: any; the relay then writes the one it got into its file
    mbit_per_s: float
    rtt_ms: float
    jitter_ms: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RelayConfig:
    target_port: int  # where the logbook listens on this machine
    control_port: int
    token: str  # who knows it may command the relay
    counters: Path
    sites: tuple[RelaySite, ...]

    def text(self) -> bytes:
        return json.dumps({**asdict(self), "counters": str(self.counters)}, indent=1).encode()


def read_config(file: Path) -> RelayConfig:
    try:
        values = json.loads(file.read_bytes())
        values["counters"] = Path(values["counters"])
        values["sites"] = tuple(RelaySite(**site) for site in values["sites"])
        config = RelayConfig(**values)
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise SpecError(f"not a relay's file: {problem}", where=str(file)) from problem
    for site in config.sites:
        if site.mbit_per_s <= 0 or site.rtt_ms < 0 or site.jitter_ms < 0:
            raise SpecError(
                f"the link of {site.site} needs a rate above 0 and times of 0 or more",
                where=str(file),
            )
    return config
