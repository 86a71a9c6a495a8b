"""Plans, runs and results in words for a terminal. Text in, text out."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.plan import Plan
from argosy.core.records import Commit, Entry, Evaluation, HostEvent, HostStarted
from argosy.core.units import money
from argosy.observe.charts import FAULTS, duration, number, size
from argosy.observe.story import worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from argosy.observe.story import Story


def nearby(path: Path) -> str:
    """A path as one would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def plan_lines(job: Job, fleet: Fleet, plan: Plan) -> Iterator[str]:
    """Who trains what, how they agree, what it will take, and why."""
    yield f"Plan for {job.name}: {number(plan.parameters)} parameters"
    yield ""
    for site in plan.sites:
        hosts = ", ".join(f"{h.host} ({h.accumulation}x{h.micro_batch})" for h in site.hosts)
        country = fleet.site(site.site).country
        yield f"  {site.site} ({country})  trains {', '.join(site.sources)} on {hosts}"
        yield (
            f"      {number(site.tokens_per_s)} tokens/s, {site.steps_per_round:.0f} steps a round,"
            f" {size(site.bytes_per_round)} a round in {site.transfer_s:.1f} s"
        )
    exchange, estimate = plan.exchange, plan.estimate
    window = (
        f"{exchange.window_steps} steps"
        if exchange.window_steps is not None
        else f"{exchange.window_seconds:g} s"
    )
    moved = estimate.bytes_up + estimate.bytes_down
    yield ""
    yield f"  exchange  every {window}, {exchange.codec}, delay {exchange.delay}"
    yield (
        f"  expected  {estimate.rounds} rounds, {duration(estimate.seconds)},"
        f" {number(estimate.tokens_per_s)} tokens/s, {money(estimate.money, estimate.currency)}"
    )
    yield f"  traffic   {size(moved)} instead of {size(estimate.allreduce_bytes)} by all-reduce"
    yield ""
    yield "  Why:"
    for reason in plan.reasons:
        yield f"  - {reason}"


def entry_line(entry: Entry) -> str | None:
    """What one record means to somebody who watches; None when it is not worth a line."""
    match entry.body:
        case Commit() as commit:
            members = ", ".join(member.site for member in commit.members)
            last = ", the last" if commit.last else ""
            return f"round {commit.round}{last}: {members}; {number(commit.tokens)} tokens"
        case HostEvent() as event:
            return worded(event.what, event.detail)
        case HostStarted():
            word = "started" if entry.writer.incarnation == 1 else "is back"
            return f"{entry.writer.host} {word}"
        case _:
            return None


def losses(seen: "Sequence[Evaluation]") -> str:
    """What was found since the last such line: bits per byte of each source, round by round."""
    ordered = sorted(seen, key=lambda one: one.source)
    rounds = sorted({one.round for one in seen})
    found = (
        f"after round {each}: "
        + ", ".join(f"{e.source} {e.bits_per_byte:.3f}" for e in ordered if e.round == each)
        for each in rounds
    )
    return f"bits per byte {'; '.join(found)}" if rounds else ""


def evaluated(told: dict[str, Any]) -> str:
    """One line of the evaluating task."""
    return f"{told['file']}: {told['bits_per_byte']:.3f} bits per byte"


def summary_lines(story: "Story") -> Iterator[str]:
    """What a run came to: loss before and after, bytes, and what a lost site cost the others."""
    yield f"{story.name}: {story.outcome} after {len(story.rounds)} rounds, {duration(story.seconds)}"
    yield ""
    yield "  loss in bits per byte      before   after"
    for source, seen in story.losses:
        if seen:
            yield f"    {source:<22} {seen[0][1]:8.3f} {seen[-1][1]:7.3f}"
    yield ""
    yield "  bytes over each link       updates   all-reduce would   times fewer"
    for site in story.sites:
        moved, would = site.payload_up + site.payload_down, 2 * site.allreduce_each_way
        fewer = f"{would / moved:,.0f}" if moved else "-"
        yield f"    {site.site:<20} {size(moved):>11} {size(would):>18} {fewer:>13}"
    yield from lost_lines(story)


def lost_lines(story: "Story") -> Iterator[str]:
    """How long the others waited while a site was away."""
    for mark in story.marks:
        if mark.what not in FAULTS or not mark.site:
            continue
        others = [site for site in story.sites if site.site != mark.site]
        waited = sum(site.waited_s for site in others)
        gap = max((site.longest_gap_s for site in others), default=0.0)
        yield ""
        yield (
            f"  {mark.text}: the other sites waited {waited:.1f} s in the whole run; their longest"
            f" gap between two steps was {gap:.2f} s"
        )
        return


def status_lines(story: "Story", target_tokens: int) -> Iterator[str]:
    share = story.tokens / target_tokens if target_tokens else 0.0
    yield (
        f"{story.name}  round {len(story.rounds)}"
        f"  {number(story.tokens)} of {number(target_tokens)} tokens ({share:.0%})"
    )
    for site in story.sites:
        yield (
            f"  {site.site} ({site.country})  {number(site.tokens_per_s)} tokens/s,"
            f" in {site.rounds_in} rounds, {size(site.payload_up)} up, {size(site.payload_down)} down"
        )
    for source, seen in story.losses:
        if seen:
            yield f"  {source}: {seen[-1][1]:.3f} bits per byte (at first {seen[0][1]:.3f})"
    for mark in story.marks[-5:]:
        yield f"  {max(0, mark.at_ms - story.from_ms) / 1000:7.1f} s  {mark.words}"
