"""What a run leaves to people: the audit, the report, the model card and a summary."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from argosy import __version__
from argosy.cli import show
from argosy.cluster.whole import write_whole
from argosy.core.law import Verdict
from argosy.core.records import Entry, RunBegun
from argosy.lab.relay import read_counters
from argosy.logbook import open_log
from argosy.observe.card import card
from argosy.observe.report import Extras, report
from argosy.observe.story import Story, tell
from argosy.policy import explain, flows
from argosy.run.audit import Audit, audit
from argosy.spec import parse_fleet, parse_job

if TYPE_CHECKING:
    from argosy.core.fleet import Fleet
    from argosy.core.job import Job
    from argosy.run.folder import RunFolder


def leave_report(folder: "RunFolder", *, sample: str = "") -> Audit:
    """Audit the run, write report.html and the model card, and say what came of it."""
    entries = read_entries(folder)
    story = tell(entries, counted(folder))
    began = time.monotonic()
    proof = audit(folder)
    took_s = time.monotonic() - began
    job, fleet = specs(entries)
    extras = Extras(
        policy=explain(job.policy),
        flows=tuple(_flows(job, fleet, story)),
        audit_ok=proof.ok,
        audit_text=str(proof),
        sample=sample,
    )
    write_whole(folder.report, report(story, extras).encode())
    if folder.model.is_dir():
        text = card(job, story, extras, version=__version__)
        write_whole(folder.model / "README.md", text.encode())
    print()
    print("\n".join(show.summary_lines(story)))
    print(f"\n  audit   {proof} ({took_s:.1f} s)")
    if folder.model.is_dir():
        print(f"  model   {show.nearby(folder.model)}")
    print(f"  report  {show.nearby(folder.report)}")
    return proof


def read_entries(folder: "RunFolder") -> list[Entry]:
    log = open_log(folder.logbook)
    try:
        return log.entries()
    finally:
        log.close()


def specs(entries: list[Entry]) -> "tuple[Job, Fleet]":
    """Job and fleet as the run record holds them."""
    begun = entries[0].body
    assert isinstance(begun, RunBegun), "a logbook begins with its run record"
    return parse_job(begun.job), parse_fleet(begun.fleet)


def counted(folder: "RunFolder") -> Mapping[str, tuple[int, int]] | None:
    """Bytes up and down per site by the relay's own count, measuring left out; None outside labs."""
    lab = folder.path / "lab"
    if not lab.is_dir():
        return None
    before, after = (_read(lab / name) for name in ("counters-before.json", "counters.json"))
    return {
        site: (row["up"] - _of(before, site, "up"), row["down"] - _of(before, site, "down"))
        for site, row in after.items()
    }


def _read(path: Path) -> dict[str, dict[str, int]]:
    return read_counters(path)


def _of(counters: Mapping[str, Mapping[str, int]], site: str, way: str) -> int:
    return counters.get(site, {}).get(way, 0)


def _flows(job: "Job", fleet: "Fleet", story: Story) -> Iterator[tuple[str, str, str, str]]:
    """What travels in a run: of each source, in which forms, to each country, by which rule."""
    trains = {site.site for site in story.sites if site.sources}
    ways: dict[tuple[str, str, str, str], list[str]] = {}
    for flow in flows(job, fleet):
        stands = set(flow.places) & trains or fleet.home == flow.to
        if flow.travels and flow.to != flow.origin and stands:
            way = (flow.source, flow.origin, flow.to, _ground(job, flow.verdict))
            ways.setdefault(way, []).append(flow.form)
    for (source, origin, to, ground), forms in ways.items():
        yield f"{', '.join(forms)} of {source}", origin, to, ground


def _ground(job: "Job", verdict: Verdict) -> str:
    if verdict.rule is None:
        return verdict.reason
    rule = job.policy.rules[verdict.rule]
    return f"rule {verdict.rule + 1} ({rule.where}): {rule.why}" if rule.why else verdict.reason
