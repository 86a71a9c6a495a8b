import json
import math
from dataclasses import dataclass, replace
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import DamagedError
from argosy.core.plan import (
    Estimate,
    ExchangePlan,
    HostPlan,
    Plan,
    SitePlan,
)
from argosy.core.records import (
    KINDS,
    Access,
    Body,
    Checkpointed,
    Commit,
    Contribution,
    Crew,
    Digest,
    Drain,
    Ended,
    Evaluation,
    Expired,
    HostEvent,
    HostStarted,
    Lead,
    Member,
    Planned,
    Progress,
    Roster,
    RunBegun,
    Seat,
    Shard,
    Unknown,
)
from argosy.logbook import encoding
from argosy.logbook.encoding import LARGEST, canonical, decode_body, encode_body, parse

PLAN = Plan(
    number=1,
    sites=(
        SitePlan(
            site="tokyo",
            hosts=(HostPlan(host="tokyo-1", micro_batch=4, accumulation=2, tokens_per_s=1e3),),
            sources=("japanese",),
            tokens_per_s=1e3,
            seconds_per_step=0.1,
            steps_per_round=30.0,
            bytes_per_round=35_000,
            transfer_s=0.3,
        ),
    ),
    exchange=ExchangePlan(
        codec="ternary", block=128, window_steps=30, window_seconds=None, delay=1,
        outer_learning_rate=0.7, outer_momentum=0.6, staleness=8, checkpoint_every=5,
        evaluate_every=1,
    ),
    estimate=Estimate(
        tokens_per_s=1e3, rounds=40, seconds=90.5, money=0.01, currency="USD", bytes_up=1,
        bytes_down=2, allreduce_bytes=3,
    ),
    parameters=280_000,
    reasons=("it fits",),
)  # fmt: skip

BODIES: list[Body] = [
    RunBegun(run="r", name="n", argosy="0.1.0", job="j: 1\n", fleet="f", authority="PEM"),
    Lead(term=3),
    Roster(seats=(Seat(site="s", host="h", country="DE", certificate="PEM"),), torch=""),
    Crew(site="s", epoch=2, hosts=("a", "b")),
    Planned(plan=PLAN, reason="first plan"),
    HostStarted(
        address="127.0.0.1", store_port=0, torch="2.13", python="3.11", argosy="0.1.0",
        clock_offset_ms=-3_600_000, resumed_tokens=0,
    ),
    HostEvent(what="lost", site="tokyo", host="", detail="東京 is away\n"),
    Access(source="s", purpose="train", files=1, bytes=2, digest="sha256:0", rule="stays in DE"),
    Contribution(
        fragment=0, n=1, base=0, tokens=1, steps=1, trained=1, codec="fp32", form="update",
        rule="", cursor='{"epoch":0}', incarnation=1,
        shards=(Shard(parameter="*", start=0, stop=4, blob="sha256:0", bytes=16),),
    ),
    Commit(
        fragment=0, round=1, term=1, plan=1, members=(Member(site="s", n=1, tokens=1, steps=1),),
        expired=(Expired(site="t", n=2),), tokens=1, last=False, head_seq=9, head_chain="00",
    ),
    Drain(term=1, reason="done"),
    Checkpointed(
        round=0, at_seq=0, blob="sha256:0", bytes=1, digest="d", parameters=4, table="[]",
        last_n=(Expired(site="s", n=1),),
    ),
    Digest(fragment=0, round=1, digest="d"),
    Progress(
        round=1, step=2, trained=3, loss=2.5, tokens_per_s=1e9, compute_s=0.1, encode_s=1e-300,
        apply_s=0.0, wait_s=math.inf, longest_gap_s=0.25,
    ),
    Evaluation(round=1, source="s", loss=2.5, tokens=3, bits_per_byte=1 / 3),
    Ended(outcome="done", rounds=1, tokens=2, head_seq=3, head_chain="00"),
    Unknown(kind="sealed", body='{"a":[1,"x",null,true]}'),
]  # fmt: skip


def test_there_is_an_example_of_every_kind() -> None:
    assert {type(body) for body in BODIES} == {*KINDS.values(), Unknown}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_body_comes_back_from_canonical_json_as_it_was(body: Body) -> None:
    kind, plain = encode_body(body)

    assert decode_body(kind, parse(canonical(plain))) == body


def test_a_record_looks_as_it_did_when_the_format_was_fixed() -> None:
    kind, plain = encode_body(BODIES[13])

    assert kind == "progress"
    assert canonical(plain) == (
        b'{"apply_s":"0x0.0p+0","compute_s":"0x1.999999999999ap-4","encode_s":'
        b'"0x1.56e1fc2f8f359p-997","longest_gap_s":"0x1.0000000000000p-2","loss":'
        b'"0x1.4000000000000p+1","round":1,"step":2,"tokens_per_s":"0x1.dcd6500000000p+29",'
        b'"trained":3,"wait_s":"inf"}'
    )


def test_a_loss_that_is_not_a_number_still_travels() -> None:
    body = BODIES[13]
    assert isinstance(body, Progress)

    decoded = decode_body(*encode_body(replace(body, loss=math.nan)))

    assert isinstance(decoded, Progress)
    assert math.isnan(decoded.loss)


def test_a_whole_number_in_a_float_field_travels_as_a_float() -> None:
    _, plain = encode_body(Evaluation(round=1, source="s", loss=2, tokens=3, bits_per_byte=1))

    assert plain["loss"] == "0x1.0000000000000p+1"


def test_fields_of_a_newer_minor_version_are_passed_over() -> None:
    assert decode_body("lead", {"term": 3, "mood": "good"}) == Lead(term=3)


def test_fields_that_an_older_version_did_not_write_take_their_defaults() -> None:
    kind, plain = encode_body(BODIES[11])
    del plain["last_n"]

    decoded = decode_body(kind, plain)

    assert isinstance(decoded, Checkpointed)
    assert decoded.last_n == ()


def test_a_kind_from_the_future_is_kept_as_it_is() -> None:
    assert decode_body("sealed", {"b": 1, "a": "x"}) == Unknown(
        kind="sealed", body='{"a":"x","b":1}'
    )


@pytest.mark.parametrize(
    ("kind", "plain", "said"),
    [
        ("lead", {}, "lacks term"),
        ("lead", {"term": "3"}, "expected int, found '3'"),
        ("lead", {"term": True}, "expected int, found True"),
        ("crew", {"site": "s", "epoch": 1, "hosts": "ab"}, "expected an array"),
        ("crew", {"site": "s", "epoch": 1, "hosts": [1]}, r"crew.hosts\[0\]: expected str"),
        ("roster", {"seats": [3], "torch": ""}, "expected an object"),
        ("evaluation", {"round": 1, "source": "s", "loss": 2, "tokens": 3, "bits_per_byte": "0x"},
         "expected a float"),
        ("evaluation", {"round": 1, "source": "s", "loss": "0x1p1", "tokens": 3,
         "bits_per_byte": "0x1p1"}, "expected 0x1.0000000000000p"),
        ("evaluation", {"round": 1, "source": "s" * 99, "loss": "s" * 99, "tokens": 3,
         "bits_per_byte": "0x0.0p+0"}, r"\.\.\."),
    ],
)  # fmt: skip
def test_a_body_of_another_shape_is_refused_with_its_place(
    kind: str, plain: dict[str, object], said: str
) -> None:
    with pytest.raises(DamagedError, match=said):
        decode_body(kind, plain)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1}',  # a space
        b'{"b":1,"a":1}',  # order
        b'{"a":1,"a":1}',  # twice
        b'{"a":1.0}', b'{"a":1e3}', b'{"a":-0}', b'{"a":NaN}', b'{"a":01}',
        b'{"a":9007199254740992}', b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"\\u0041"}', b'{"a":"\\/"}', b'{"a":"\\ud800"}', b'{"a":"\xff"}',
        b"[" * 100_000, b'{"a":' * 50_000,
        b'{"a":1}\n', b"\xef\xbb\xbf{}", b"3", b"[]", b"null", b"",
    ],
)  # fmt: skip
def test_any_other_spelling_than_the_canonical_one_is_refused(raw: bytes) -> None:
    with pytest.raises(DamagedError):
        parse(raw)


def test_canonical_json_is_as_rfc_8785_says() -> None:
    # Section 3.2.3 of the RFC: keys in the order of their UTF-16 code units.
    value = {
        "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One", "\U0001f600": "Emoji: Grinning Face", "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }  # fmt: skip

    keys = list(json.loads(canonical(value)))

    assert keys == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert canonical({"s": '\u20ac$\u000f\nA\'B"\\\\"/'}) == (
        '{"s":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'.encode()
    )


def test_what_is_not_for_a_record_is_our_own_mistake() -> None:
    for value in ({"a": 1.5}, {"a": LARGEST + 1}, {1: "a"}, {"a": object()}):
        with pytest.raises(AssertionError):
            canonical(value)


def test_a_file_name_that_is_no_unicode_is_written_with_escapes() -> None:
    kind, plain = encode_body(HostEvent(what="disk", site="s", host="h", detail="a\udcff"))

    assert parse(canonical(plain))["detail"] == "a\\udcff"
    assert kind == "event"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_canonical_bytes_are_read_back_and_written_again_the_same(value: dict[str, object]) -> None:
    raw = canonical(value)

    assert parse(raw) == value == json.loads(raw)
    assert canonical(parse(raw)) == raw


@given(st.floats())
def test_every_float_comes_back_to_the_bit(number: float) -> None:
    body = Evaluation(round=1, source="s", loss=number, tokens=1, bits_per_byte=0.0)

    decoded = decode_body(*encode_body(body))

    assert isinstance(decoded, Evaluation)
    assert decoded.loss.hex() == number.hex()


class Mood(StrEnum):
    GOOD = "good"


@dataclass(frozen=True)
class Odd:
    """Shapes that no record has yet."""

    pair: tuple[float, str]
    mood: Mood
    maybe: tuple[int, ...] | None = None


def test_pairs_and_enums_can_stand_in_records_to_come() -> None:
    odd = Odd(pair=(0.5, "x"), mood=Mood.GOOD)

    plain = parse(canonical(encoding._encoder(Odd)(odd)))

    assert plain == {"maybe": None, "mood": "good", "pair": ["0x1.0000000000000p-1", "x"]}
    assert encoding._decoder(Odd)(plain, "odd") == odd


@pytest.mark.parametrize(
    "changed", [{"mood": "bad"}, {"mood": []}, {"pair": ["0x0.0p+0"]}, {"pair": "ab"}],
    ids=["enum", "type", "short", "text"],
)  # fmt: skip
def test_a_pair_or_an_enum_of_another_shape_is_refused(changed: dict[str, object]) -> None:
    plain = {"maybe": [1], "mood": "good", "pair": ["0x0.0p+0", "x"]}

    with pytest.raises(DamagedError):
        encoding._decoder(Odd)(plain | changed, "odd")
