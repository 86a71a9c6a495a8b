import pytest
from fakes.lab import fleet
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import SpecError
from argosy.lab.deeds import Do, deeds
from argosy.spec import faults
from argosy.spec.faults import AtRound, AtSecond, Fault, due, next_second, parse, script, targets


@pytest.mark.parametrize(
    ("text", "plug", "at"),
    [
        ("kill tokyo-1 at round 4", faults.Kill(target="tokyo-1"), AtRound(round=4)),
        ("  kill   tokyo at  20 s ", faults.Kill(target="tokyo"), AtSecond(seconds=20)),
        ("return tokyo at round 6", faults.Return(target="tokyo"), AtRound(round=6)),
        (
            "hang virginia-2 for 10 s at round 3",
            faults.Hang(target="virginia-2", seconds=10),
            AtRound(round=3),
        ),
        (
            "hang virginia-2 at round 3 for 10 s",
            faults.Hang(target="virginia-2", seconds=10),
            AtRound(round=3),
        ),
        ("hang tokyo at 7s", faults.Hang(target="tokyo", seconds=None), AtSecond(seconds=7)),
        (
            "slow tokyo-1 to 50 % for 5 seconds at round 1",
            faults.SlowHost(target="tokyo-1", percent=50, seconds=5),
            AtRound(round=1),
        ),
        (
            "slow tokyo to 1.5 Mbit/s at round 1",
            faults.SlowLink(target="tokyo", mbit_per_s=1.5, seconds=None),
            AtRound(round=1),
        ),
        (
            "cut tokyo for 20 s at round 2",
            faults.Cut(target="tokyo", seconds=20),
            AtRound(round=2),
        ),
        ("stall tokyo at round 2", faults.Stall(target="tokyo", seconds=None), AtRound(round=2)),
        (
            "preempt tokyo-1 with 30 s notice at round 5",
            faults.Preempt(target="tokyo-1", notice_s=30),
            AtRound(round=5),
        ),
        (
            "fill the disk of tokyo-1 at round 2",
            faults.FillDisk(target="tokyo-1", seconds=None),
            AtRound(round=2),
        ),
        ("lose the controller at round 3", faults.LoseController(), AtRound(round=3)),
    ],
)
def test_a_sentence_is_understood(text: str, plug: faults.Plug, at: AtRound | AtSecond) -> None:
    fault = parse(text)

    assert (fault.plug, fault.at) == (plug, at)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kill tokyo", "does not say when"),
        ("kill tokyo at round 3 at 20 s", "more than once"),
        ("kill tokyo at round three", "does not say when"),
        ("kill tokyo for 5 s at round 3", '"for 5 s" has no meaning here'),
        ("slow tokyo at round 3", "not a sentence"),
        ("slow tokyo-1 to 100 % at round 3", "between 0 and 100"),
        ("slow tokyo-1 to 0 % at round 3", "between 0 and 100"),
        ("slow tokyo to 0 Mbit/s at round 3", "above 0"),
        ("explode tokyo at round 3", "not a sentence"),
        ("preempt tokyo at round 3", "not a sentence"),
        ("", "does not say when"),
        ("at 2.5 s", "does not say when"),
    ],
)
def test_what_is_not_understood_is_refused_with_all_the_forms(text: str, why: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(text)

    assert why in refused.value.what
    assert refused.value.hint is not None
    assert "kill HOST|SITE" in refused.value.hint


@given(st.text(alphabet="kilhangcut tokyo-1 at round for s 0123456789%", max_size=40))
def test_any_text_is_a_fault_or_a_spec_error(text: str) -> None:
    try:
        fault = parse(text)
    except SpecError:
        return
    assert isinstance(fault, Fault)


def test_a_site_stands_for_its_hosts_and_a_link_for_its_site() -> None:
    assert targets(parse("kill virginia at round 1"), fleet()) == ("virginia-1", "virginia-2")
    assert targets(parse("kill virginia-2 at round 1"), fleet()) == ("virginia-2",)
    assert targets(parse("cut virginia at round 1"), fleet()) == ("virginia-1", "virginia-2")
    assert targets(parse("lose the controller at round 1"), fleet()) == ()


def test_a_script_that_names_a_stranger_or_cuts_a_host_is_refused() -> None:
    with pytest.raises(SpecError, match="atlantis is not in the fleet") as refused:
        script(fleet("kill atlantis at round 1"))
    assert "tokyo" in str(refused.value)
    with pytest.raises(SpecError, match="virginia-1 is not a site"):
        script(fleet("cut virginia-1 at round 1"))


def test_a_fault_is_due_from_its_round_on_and_only_until_it_is_pulled() -> None:
    kill, back = script(fleet("kill tokyo at round 2", "return tokyo at 30 s"))

    assert due((kill, back), (), round=1, seconds=29.9) == ()
    assert due((kill, back), (), round=2, seconds=29.9) == (kill,)
    assert due((kill, back), (), round=5, seconds=30.0) == (kill, back)
    assert due((kill, back), (kill,), round=5, seconds=30.0) == (back,)


def test_the_next_fault_by_the_clock_is_known_beforehand() -> None:
    pulls = script(fleet("kill tokyo at 9 s", "cut tokyo at 4 s", "hang tokyo at round 1"))

    assert next_second(pulls, ()) == 4
    assert next_second(pulls, (pulls[1],)) == 9
    assert next_second(pulls, pulls) is None


def _deeds(text: str) -> list[tuple[Do, str, float]]:
    return [(d.do, d.target, d.at_s) for d in deeds(parse(text), fleet(), 100.0)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("kill tokyo at round 1", [(Do.POWER_OFF, "tokyo-1", 100.0)]),
        (
            "preempt tokyo with 30 s notice at round 1",
            [(Do.PREEMPT, "tokyo-1", 100.0), (Do.POWER_OFF, "tokyo-1", 130.0)],
        ),
        (
            "hang virginia for 5 s at round 1",
            [
                (Do.STOP, "virginia-1", 100.0),
                (Do.STOP, "virginia-2", 100.0),
                (Do.GO_ON, "virginia-1", 105.0),
                (Do.GO_ON, "virginia-2", 105.0),
            ],
        ),
        ("hang tokyo at round 1", [(Do.STOP, "tokyo-1", 100.0)]),
        (
            "cut virginia for 20 s at round 1",
            [(Do.CUT, "virginia", 100.0), (Do.HEAL, "virginia", 120.0)],
        ),
        ("stall tokyo at round 1", [(Do.STALL, "tokyo", 100.0)]),
        (
            "fill the disk of tokyo-1 for 3 s at round 1",
            [(Do.FILL, "tokyo-1", 100.0), (Do.FREE, "tokyo-1", 103.0)],
        ),
        (
            "lose the controller at round 1",
            [(Do.LOSE, "controller", 100.0), (Do.BACK, "controller", 100.0)],
        ),
    ],
)
def test_a_fault_becomes_deeds_now_and_later(
    text: str, wanted: list[tuple[Do, str, float]]
) -> None:
    assert _deeds(text) == wanted


def test_the_share_of_speed_and_the_rate_travel_with_the_deed() -> None:
    slow = deeds(parse("slow tokyo-1 to 40 % for 2 s at round 1"), fleet(), 0.0)
    narrow = deeds(parse("slow tokyo to 5 Mbit/s at round 1"), fleet(), 0.0)

    assert [(d.do, d.value) for d in slow] == [(Do.SLOW, 40), (Do.FULL_SPEED, 0)]
    assert [(d.do, d.value) for d in narrow] == [(Do.NARROW, 5)]


def test_a_return_puts_back_everything_of_the_site_and_its_hosts() -> None:
    undone = {(do, target) for do, target, _ in _deeds("return virginia at round 1")}

    assert {(Do.HEAL, "virginia"), (Do.POWER_ON, "virginia-1"), (Do.GO_ON, "virginia-2")} <= undone
