"""The report of a run: one self-contained HTML page a person wants to look at. Pure."""

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from argosy.core.units import money
from argosy.observe import charts
from argosy.observe.charts import duration, number, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from argosy.observe.story import SiteStory, Story

STYLE = """
:root{--ink:#1c2430;--quiet:#5c6878;--paper:#fff;--card:#f5f7fa;--line:#d9dfe7;--good:#00795a;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--quiet:#9aa6b5;--paper:#12161c;--card:#1b212a;
--line:#333d4a;--good:#4cc9a0;--bad:#ff8a80}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:900px;margin:0 auto;padding:32px 20px 80px}h1{font-size:30px;margin:0}
h2{font-size:20px;margin:44px 0 8px}p{margin:6px 0}.quiet,.tick{color:var(--quiet);fill:var(--quiet)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;margin:22px 0}
.card{background:var(--card);border-radius:10px;padding:14px 16px}.card b{display:block;font-size:23px}
.ok{color:var(--good)}.wrong{color:var(--bad)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:15px}
th,td{text-align:right;padding:6px 10px;border-bottom:1px solid var(--line)}
th:first-child,td:first-child,.words th,.words td{text-align:left}th{color:var(--quiet);font-weight:600}
.scroll{overflow-x:auto}svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:var(--ink)}
.grid{stroke:var(--line)}.round{stroke:var(--quiet);stroke-width:1;opacity:.55}
.line{fill:none;stroke-width:2.2}.bad{stroke:var(--bad);stroke-width:3;fill:none}
.good{fill:var(--good);stroke:var(--paper)}.tick{font-size:11px}
.legend span{margin-right:18px}.legend i{display:inline-block;width:12px;height:12px;border-radius:3px;
margin-right:6px;vertical-align:-1px}code{font-size:13px;overflow-wrap:anywhere}li{margin:4px 0}
"""


UNIFORM = 8.0  # bits per byte of a model that gives each of 256 bytes the same chance
COUNTED = (
    "Planned bytes are updates and the sites' records, with every site in every round; measured are"
    " the updates that were posted, and those that rounds named."
)
TIMED = (
    "Training time begins when the first host starts; the time at the top begins with the first"
    " record, so that measuring, planning and your answer are in it."
)
LOST = (
    "Killed: what hosts had trained since their last snapshot or post when they died. Rolled back:"
    " what a site gave up when it went back to the agreed model. No other tokens are ever lost."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Extras:
    """What the report shows beside the story: texts that other rooms made."""

    policy: tuple[str, ...]  # each rule in plain words
    flows: tuple[tuple[str, str, str, str], ...]  # what, from, to, by which rule
    audit_ok: bool
    audit_text: str
    sample: str = ""  # what the model writes


def report(story: "Story", extras: Extras) -> str:
    """The page. Everything in it is escaped; nothing is loaded from anywhere."""
    sections = (
        _head(story, extras),
        _section("Loss on what each source holds back", _losses(story)),
        _section("What crossed each link", _links(story)),
        _section("Sites, rounds, faults and recoveries", _timeline(story)),
        _section("Plan against reality", _plan(story)),
        _section("Where every token went", _ledger(story)),
        _section("Policy in plain words", _policy(story, extras)),
        _section("Audit", _audit(extras)),
    )
    title = escape(story.name or "run")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title} - Argosy</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style><main>{''.join(sections)}</main></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}" if body else ""


def table(head: tuple[str, ...], rows: "Sequence[tuple[str, ...]]", *, words: bool = False) -> str:
    """Rows under a head; numbers stand right, and with `words` everything stands left."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    kind = ' class="words"' if words else ""
    return f'<div class="scroll"><table{kind}><tr>{cells}</tr>{lines}</table></div>'


def crossed(site: "SiteStory") -> int:
    """Bytes of updates and checkpoints over one site's link, up plus down, the first model apart."""
    return site.payload_up + site.payload_down


def times_fewer(story: "Story") -> float:
    """All-reduce bytes over exchanged bytes, all sites, up plus down."""
    moved = sum(crossed(site) for site in story.sites)
    return sum(2 * site.allreduce_each_way for site in story.sites) / moved if moved else 0.0


def _head(story: "Story", extras: Extras) -> str:
    improved = [(name, seen[0][1], seen[-1][1]) for name, seen in story.losses if seen]
    cards = [
        (duration(story.seconds), f"from first record to last; outcome: {story.outcome}"),
        (number(story.parameters), "parameters"),
        (number(story.tokens), f"tokens agreed upon in {len(story.rounds)} rounds"),
        (f"{times_fewer(story):,.0f} x", "fewer bytes than all-reduce of fp32 gradients"),
    ]
    cards.extend((f"{a:.2f} → {b:.2f}", f"bits per byte, {name}") for name, a, b in improved)
    boxes = "".join(
        f'<div class="card"><b>{escape(value)}</b><span class="quiet">{escape(label)}</span></div>'
        for value, label in cards
    )
    audit = '<b class="ok">audit ok</b>' if extras.audit_ok else '<b class="wrong">audit failed</b>'
    places = ", ".join(f"{site.site} ({site.country})" for site in story.sites)
    return (
        f"<h1>{escape(story.name)}</h1><p>One model, trained at {escape(places)}. {audit}."
        f'</p><p class="quiet">run <code>{escape(story.run)}</code>, {story.records:,} records</p>'
        f'<div class="cards">{boxes}</div>'
    )


def _losses(story: "Story") -> str:
    chart = charts.lines(
        [(name, [(float(r), v) for r, v in seen]) for name, seen in story.losses],
        x_name="round",
        y_name="bits per byte",
        gap=story.plan.exchange.evaluate_every if story.plan else math.inf,
    )
    return chart + "".join(f'<p class="quiet">{escape(line)}</p>' for line in blind_lines(story))


def blind_lines(story: "Story") -> "Iterator[str]":
    """Losses of a trained model beyond those of one that knows nothing, each with what was away."""
    members = {each.number: set(each.members) for each in story.rounds}
    for source, seen in story.losses:
        rounds = [after for after, value in seen if after > 0 and value > UNIFORM]
        if not rounds:
            continue
        sites = {site.site for site in story.sites if source in site.sources}
        away = [after for after in rounds if sites and not sites & members.get(after, sites)]
        there = [after for after in rounds if after not in away]
        when = [f"after round {ranges(there)}"] if there else []
        if away:
            who = " and ".join(sorted(sites))
            when.append(
                f"after round {ranges(away)}, while {who}, which trains on it, took no part"
            )
        yield (
            f"{source} was above {UNIFORM:g} bits per byte {' and '.join(when)}. To give"
            f" every byte the same chance costs {UNIFORM:g}; more is what a model pays that is"
            " sure of the wrong bytes, as one that has learned mostly from other texts."
        )


def ranges(numbers: "Sequence[int]") -> str:
    """[3, 4, 5, 9] -> "3-5, 9"."""
    runs: list[tuple[int, int]] = []
    for each in numbers:
        if runs and each == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], each)
        else:
            runs.append((each, each))
    return ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in runs)


def _links(story: "Story") -> str:
    rows = [
        (site.site, float(crossed(site)), 2.0 * site.allreduce_each_way) for site in story.sites
    ]
    relay = any(site.counted_up is not None for site in story.sites)
    head = ("site", "updates up", "updates down", "models down", "all-reduce would") + (
        ("counted up", "counted down") if relay else ()
    )
    lines = []
    for site in story.sites:
        row = (
            f"{site.site} ({site.country})",
            size(site.payload_up),
            size(site.payload_down),
            size(site.model_down),
            size(2 * site.allreduce_each_way),
        )
        counted = (size(site.counted_up or 0), size(site.counted_down or 0)) if relay else ()
        lines.append(row + counted)
    note = (
        "Up plus down per site. “All-reduce would” is a ring all-reduce of fp32 gradients every step"
        " for the same tokens, 2 (N-1)/N x 4 bytes per parameter and step, each way."
        + (
            " “Counted” is the relay's own count of all bytes, encryption, records and the"
            " initial model included."
            if relay
            else ""
        )
    )
    chart = charts.bars(rows, first="exchanged by Argosy", second="all-reduce would have moved")
    return chart + table(head, lines) + f'<p class="quiet">{escape(note)}</p>'


def _timeline(story: "Story") -> str:
    events = [
        (
            f"{max(0, mark.at_ms - story.from_ms) / 1000:.1f} s",
            mark.host or mark.site,
            mark.what,
            "" if mark.text == f"{mark.host} {mark.what}" else mark.text,
        )
        for mark in story.marks
    ]
    listed = table(("when", "who", "what", "in words"), events, words=True) if events else ""
    return charts.timeline(story) + listed


def _plan(story: "Story") -> str:
    plan = story.plan
    if plan is None:
        return '<p class="quiet">No plan was recorded.</p>'
    up = sum(site.payload_up for site in story.sites)
    down = sum(site.payload_down for site in story.sites)
    first = story.rounds[0].at_ms if story.rounds else story.from_ms
    training_s = max(1e-9, (story.to_ms - min([m.from_ms for m in story.lives] or [first])) / 1000)
    estimate = plan.estimate
    moved = estimate.bytes_up + estimate.bytes_down
    planned = estimate.allreduce_bytes / moved if moved else 0.0
    rows = [
        ("training time", duration(estimate.seconds), duration(training_s)),
        ("tokens per second", number(estimate.tokens_per_s), number(story.tokens / training_s)),
        ("rounds", f"{estimate.rounds}", f"{len(story.rounds)}"),
        ("fewer bytes than all-reduce", _times(planned), _times(times_fewer(story))),
        ("updates up, all sites", size(estimate.bytes_up), size(up)),
        ("updates down, all sites", size(estimate.bytes_down), size(down)),
        (
            "money",
            money(estimate.money, estimate.currency),
            money(estimate.money * training_s / max(estimate.seconds, 1e-9), estimate.currency),
        ),
    ]
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in plan.reasons)
    notes = f'<p class="quiet">{escape(f"{COUNTED} {TIMED}")}</p>'
    told = table(("", "planned", "measured"), rows) + notes
    return f"{told}<p>Why this plan:</p><ul>{reasons}</ul>"


def _times(factor: float) -> str:
    return f"{factor:,.0f} x"


def _ledger(story: "Story") -> str:
    rows = [
        (
            f"{site.site}",
            f"{site.trained:,}",
            f"{site.committed:,}",
            f"{site.pending:,}",
            ", ".join(f"{count:,} ({why})" for why, count in site.lost) or "0",
            f"{site.rounds_in} of {len(story.rounds)}",
            f"{site.waited_s:.1f} s of {site.waited_s + site.computed_s:.0f} s",
            f"{site.longest_gap_s:.2f} s",
        )
        for site in story.sites
    ]
    head = ("site", "trained", "committed", "pending", "lost", "rounds", "waited", "longest gap")
    lost = any(site.lost for site in story.sites)
    return table(head, rows) + (f'<p class="quiet">{escape(LOST)}</p>' if lost else "")


def _policy(story: "Story", extras: Extras) -> str:
    rules = "".join(f"<li>{escape(rule)}</li>" for rule in extras.policy)
    flows = table(("what", "from", "to", "by"), extras.flows, words=True)
    opened = [
        (access.source, f"{host} ({site})", access.purpose, size(access.bytes), access.rule)
        for site, host, access in story.accesses
    ]
    return f"<ul>{rules}</ul>{flows}<p>What was opened where:</p>" + table(
        ("source", "by", "for", "bytes", "rule"), opened
    )


def _audit(extras: Extras) -> str:
    kind = "ok" if extras.audit_ok else "wrong"
    sample = (
        f"<h2>A sample of what it writes</h2><p><code>{escape(extras.sample)}</code></p>"
        if extras.sample
        else ""
    )
    return f'<p class="{kind}">{escape(extras.audit_text)}</p>{sample}'
