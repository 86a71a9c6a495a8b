"""Numbers and messages that pages repeat from the code are the code's."""

import re

import pytest
from docs.pages import DOCS, ROOT, code, rows

from argosy.data.files import PASSAGE_BYTES
from argosy.engine.config import ORPHAN_AFTER_S
from argosy.exchange.digest import PIECE
from argosy.exchange.patience import ROUNDS_TO_KNOW
from argosy.logbook import pace, tcp
from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.blobs import BLOB_LIMIT, UNFINISHED_BYTES
from argosy.logbook.listener import Deadlines
from argosy.logbook.part import SAVE_EVERY
from argosy.logbook.transfer import TRIES
from argosy.logbook.uploads import STRETCHES, UNFINISHED
from argosy.logbook.wire import LONGEST_WAIT_S, PROBE_LIMIT
from argosy.planner import facts
from argosy.run import planning, vitals
from argosy.run.react import CLOCK_OFF_MS
from argosy.run.state import LONGEST_SILENCE_MS


def test_the_bits_of_the_codecs_are_those_that_the_plan_reckons_with() -> None:
    table = rows(DOCS / "job.md", "codec")

    assert [code(row["codec"]) for row in table] == list(facts.CODECS)
    assert {
        code(row["codec"]): float(row["bits per parameter, as the plan reckons"]) for row in table
    } == facts.BITS


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("plan.md", f"{facts.RECORD_BYTES:,} bytes are a site's records"),
        ("plan.md", f"up / r + {facts.UP_TRIPS} d"),
        ("plan.md", f"down / r + {facts.DOWN_TRIPS} d"),
        ("plan.md", f"{facts.STEPS} x mean step"),
        ("plan.md", f"no more than {facts.MOST_STEPS} mean steps"),
        ("plan.md", f"tokens/s) / {facts.LEAST_ROUNDS})"),
        ("plan.md", f"max({facts.LEAST_SECONDS:.0f} s"),
        ("plan.md", f"transfer / {facts.HIDES}"),
        ("plan.md", f"at most {facts.SPARE:.0%}".replace("%", " %")),
        ("plan.md", f"at most {facts.TRAFFIC_SHARE:.0%}".replace("%", " %")),
        ("plan.md", f"{facts.LAN_MBIT:,.0f} Mbit/s, which is assumed"),
        ("plan.md", f"(+ {4 * facts.VECTORS} P bytes"),
        ("plan.md", f"{facts.USABLE} x min"),
        ("plan.md", f"= {facts.START_S:.0f} s + 8 P"),
        ("plan.md", f"at most {planning.CALIBRATE_S:.0f} s are waited"),
        ("job.md", f"after {PASSAGE_BYTES:,} bytes"),
        ("job.md", f"scale per {facts.BLOCK} values"),
        ("protocol.md", f"After {ORPHAN_AFTER_S:.0f} s without a word"),
        ("protocol.md", "pieces of 1 Mi (2²⁰) values" if PIECE == 2**20 else "?"),
        ("protocol.md", "for the first three rounds" if ROUNDS_TO_KNOW == 3 else "?"),
        ("run-folder.md", f"after {ORPHAN_AFTER_S:.0f} s they keep a snapshot"),
        ("run-folder.md", f"{vitals.FIRST_PAUSE_S}, 1, 2, ... {vitals.LONGEST_PAUSE_S:.0f} s"),
        ("errors.md", f"at least {vitals.SHORTEST_LIMIT_S:.0f} s"),
        ("errors.md", f"({vitals.FIRST_LIMIT_S:.0f} s before its pace is known)"),
        ("job.md", f"hears no controller for {ORPHAN_AFTER_S:.0f} s"),
        ("errors.md", "off by a minute or more" if CLOCK_OFF_MS == 60_000 else "?"),
        ("job.md", "counts for a minute at most" if LONGEST_SILENCE_MS == 60_000 else "?"),
        ("logbook.md", f"| a record | {RECORD_LIMIT >> 20} MiB |"),
        ("logbook.md", f"| a blob | {BLOB_LIMIT >> 30} GiB |"),
        ("logbook.md", f"of a site | {UNFINISHED}; the oldest"),
        ("logbook.md", f"with those announced | {UNFINISHED_BYTES >> 30} GiB"),
        ("logbook.md", f"one unfinished upload | {STRETCHES:,} |"),
        ("logbook.md", f"every {SAVE_EVERY >> 20} MiB, so a server"),
        ("logbook.md", f"A blob of {pace.SMALL >> 20} MiB or less is one"),
        ("logbook.md", "{} to {} connections, by the".format(*pace.LANES_FIRST)),
        (
            "logbook.md",
            f"that brings {pace.GAIN - 1:.0%} more, up to {pace.LANES_MOST};".replace("%", " %"),
        ),
        ("logbook.md", f"in {pace.RANGE_S:.0f} s or {pace.RANGE_TRIPS} round trips"),
        ("logbook.md", f"{pace.RANGE_LEAST >> 10} KiB to {pace.RANGE_MOST >> 20} MiB"),
        ("logbook.md", "breaks three times" if TRIES == 3 else "?"),
        ("logbook.md", f"probes after {tcp.KEEP_IDLE_S} s of silence"),
        ("logbook.md", f"not acknowledged for {tcp.UNACKNOWLEDGED_MS // 1000} s"),
        ("logbook.md", f"at most {tcp.UNSENT >> 10} KiB wait unsent"),
        ("logbook.md", f"at most {LONGEST_WAIT_S:.0f} s, for the first"),
        ("logbook.md", f"at most {PROBE_LIMIT >> 20} MiB"),
        ("logbook.md", f"headers of a request | {Deadlines().headers_s:.0f} s each"),
        ("logbook.md", f"two pieces of a blob | {Deadlines().body_s:.0f} s"),
        ("logbook.md", f"takes the next piece | {Deadlines().send_s:.0f} s"),
        ("logbook.md", f"an idle connection | {Deadlines().idle_s:.0f} s"),
    ],
)
def test_a_page_repeats_the_codes_numbers(page: str, said: str) -> None:
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())

    assert said in text


def sources() -> str:
    """All of the program with the halves of its sentences joined and what is filled in left out."""
    whole = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", whole)
    return re.sub(r"\{[^{}]*\}", "", joined)


MESSAGES = [
    (page, code(row[first]))
    for page, first in (("errors.md", "message"), ("plan.md", "it says"))
    for row in rows(DOCS / page, first)
]


def test_every_message_that_a_page_explains_can_be_said() -> None:
    known = " ".join(sources().split())
    made_up = [
        (page, piece)
        for page, message in MESSAGES
        for piece in re.split(r"\.\.\.|'[^']*'|^\w[\w ]*: ", message)
        if len(piece.strip(" :.,?")) > 3 and piece.strip(" :.,?") not in known
    ]

    assert made_up == []
