"""Where a run lies on the controller's disk, and how people name it."""

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from argosy.core.errors import DiskError, SpecError
from argosy.core.records import CONTROLLER

LATEST = "latest"


def new_id(at_ms: int | None = None) -> str:
    """A UUIDv7: 48 bits of milliseconds, then random bits, so that runs sort by their begin."""
    at_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
    value = (at_ms & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76  # version 7
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant of RFC 9562
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The layout of one run. Nothing of it is shared but what the user hands on himself."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def job(self) -> Path:
        return self.path / "job.yaml"

    @property
    def fleet(self) -> Path:
        return self.path / "fleet.yaml"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def logbook(self) -> Path:
        return self.path / "logbook"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def lock(self) -> Path:
        return self.path / "controller.lock"

    @property
    def authority(self) -> Path:
        return self.path / "keys" / "ca"

    def keys(self, site: str, host: str) -> Path:
        if site == CONTROLLER:
            return self.path / "keys" / host
        return self.path / "keys" / "sites" / site / host

    def home(self, site: str, host: str) -> Path:
        return self.path / "sites" / site / host

    def log(self, site: str, host: str) -> Path:
        return self.home(site, host) / "log.txt"

    def worker(self, site: str, host: str) -> Path:
        return self.home(site, host) / "worker.json"


def create(runs: Path, job: str, run: str) -> RunFolder:
    """A new, empty run folder. `latest` is somebody's who has a plan: point_latest_at."""
    day = time.strftime("%Y-%m-%d", time.localtime(int(run.replace("-", "")[:12], 16) / 1000))
    # The first digits of a UUIDv7 are the time, alike for runs of one day; the last are random.
    folder = RunFolder(runs / f"{day}-{_plain(job)}-{run[-8:]}")
    try:
        folder.path.mkdir(parents=True)
        (folder.path / "keys").mkdir(mode=0o700)
        folder.logbook.mkdir()
    except OSError as error:
        raise DiskError(
            f"the run's folder could not be made: {error.strerror or error}",
            where=str(folder.path),
            hint="Free some space or choose another place with --runs.",
        ) from None
    return folder


def find(runs: Path, name: str = LATEST) -> RunFolder:
    """The run that a person means: a path, `latest`, or the beginning of one name in `runs`."""
    for path in (Path(name), runs / name):
        if _is_run(path):
            return RunFolder(path.resolve())
    there = everyone(runs)
    found = [folder for folder in there if _matches(folder.name, name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(folder.name for folder in found)
        raise SpecError(f'"{name}" fits {len(found)} runs: {names}', hint="Write more of the name.")
    known = ", ".join(folder.name for folder in there[:5])
    hint = (
        f"The newest runs here: {known}"
        if known
        else f"There is no run in {runs} yet: `argosy train JOB` begins one; --runs looks elsewhere."
    )
    latest = name in (LATEST, str(runs / LATEST))
    what = "no run has begun yet" if latest and known else "no run yet"
    raise SpecError(what if latest else f'no run called "{name}"', where=str(runs), hint=hint)


def everyone(runs: Path) -> list[RunFolder]:
    """All runs, the newest first."""
    if not runs.is_dir():
        return []
    paths = [path for path in runs.iterdir() if not path.is_symlink() and _is_run(path)]
    return [RunFolder(path) for path in sorted(paths, key=_age, reverse=True)]


def _is_run(path: Path) -> bool:
    return (path / "logbook").is_dir()


def _age(path: Path) -> tuple[float, str]:
    """When it was made, as far as that can be told: job.yaml is written once and then left alone."""
    job = path / "job.yaml"
    return (job if job.is_file() else path / "logbook").stat().st_mtime, path.name


def _matches(name: str, wanted: str) -> bool:
    return bool(wanted) and (name.startswith(wanted) or name.endswith(f"-{wanted}"))


def _plain(job: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", job).strip("-").lower()[:40] or "job"


def point_latest_at(folder: RunFolder) -> None:
    """`runs/latest`, a relative link, replaced whole."""
    runs = folder.path.parent
    part = runs / f".{LATEST}-{folder.name}"
    try:
        part.unlink(missing_ok=True)
        part.symlink_to(folder.name, target_is_directory=True)
        part.replace(runs / LATEST)
    except OSError as error:
        raise DiskError(
            f"the link could not be written: {error.strerror or error}", where=str(runs / LATEST)
        ) from None


def spec_text(path: Path) -> str:
    """job.yaml or fleet.yaml of a run, as it was begun."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SpecError(
            f"{path.name} of this run cannot be read: {getattr(problem, 'strerror', problem)}",
            where=str(path.parent),
            hint=f"Put the {path.name} back with which the run began; a run needs it to go on, to"
            " evaluate and to generate.",
        ) from None
