"""The small parts of the engine, each by itself."""

import json
import math
from pathlib import Path

import pytest
import torch
from fakes.engine import Clock, Tiny
from fakes.logbook import FakeLogbook

from argosy.core.errors import DamagedError, DiskError, HostError, SpecError
from argosy.core.job import Training
from argosy.core.records import Commit, Contribution, Crew, Expired, HostStarted, Member, Shard
from argosy.engine import ops
from argosy.engine.config import read_workplace, under_torchrun
from argosy.engine.guard import Guard, Ruling
from argosy.engine.inbox import Inbox, Payloads
from argosy.engine.meter import Meter
from argosy.engine.optimizer import InnerOptimizer, clip, factor, norm_of
from argosy.engine.snapshot import Keeper, Snapshot, load, save
from argosy.engine.state import Counters, SiteState
from argosy.engine.step import narrow
from argosy.engine.watch import Seating
from argosy.engine.weights import Weights
from argosy.exchange.holdings import Holdings

CPU = torch.device("cpu")


def training(**facts: object) -> Training:
    return Training(**{"tokens": 1000, **facts})  # type: ignore[arg-type]


# -- config --------------------------------------------------------------------------------------


def workplace(folder: Path, **facts: object) -> Path:
    values = {"run": "r", "site": "s", "host": "h", "url": "https://127.0.0.1:1", "keys": "keys/h",
              "data": "data", "scratch": "sites/s/h/scratch", **facts}  # fmt: skip
    path = folder / "worker.json"
    path.write_text(json.dumps(values))
    return path


def test_a_workplace_is_read_with_its_folders_beside_the_file(tmp_path: Path) -> None:
    place = read_workplace(workplace(tmp_path, threads=2, unknown="newer"))

    assert (place.host, place.threads, place.server_name) == ("h", 2, "logbook")
    assert place.keys == tmp_path / "keys/h"


def test_a_workplace_that_lacks_something_says_what(tmp_path: Path) -> None:
    path = tmp_path / "worker.json"
    path.write_text('{"run": "r"}')

    with pytest.raises(SpecError, match="lacks site, host, url, keys, data, scratch"):
        read_workplace(path)


@pytest.mark.parametrize("text", ["", "{", "[]x"])
def test_a_workplace_that_is_no_json_is_a_mistake(tmp_path: Path, text: str) -> None:
    path = tmp_path / "worker.json"
    path.write_text(text)

    with pytest.raises(SpecError, match="cannot be read"):
        read_workplace(path)


def test_torchrun_s_ranks_share_a_file_and_differ_in_host_keys_and_scratch(tmp_path: Path) -> None:
    place = read_workplace(workplace(tmp_path))

    other = under_torchrun(place, ("h", "i"), 1)

    assert under_torchrun(place, ("h", "i"), 0) == place
    assert (other.host, other.keys) == ("i", tmp_path / "keys/i")
    assert other.scratch == tmp_path / "sites/s/i/scratch"
    with pytest.raises(SpecError, match="rank 2, but --hosts names 2"):
        under_torchrun(place, ("h", "i"), 2)


# -- guard, schedule, optimizer --------------------------------------------------------------------


def test_a_broken_step_is_skipped_and_the_third_in_a_row_rolls_back() -> None:
    guard = Guard()

    assert guard.rule(1.0, 2.0) is Ruling.TAKE
    assert guard.rule(math.nan, 2.0) is Ruling.SKIP
    assert guard.rule(1.0, math.inf) is Ruling.SKIP
    assert guard.rule(1.0, 1.0) is Ruling.TAKE
    assert [guard.rule(math.nan, 1.0) for _ in range(3)][-1] is Ruling.ROLL_BACK


def test_the_rate_warms_up_then_falls_along_a_cosine_to_its_floor() -> None:
    job = training(warmup_fraction=0.1, min_learning_rate_ratio=0.2)

    assert factor(0, 10, job) == pytest.approx(0.1)
    assert factor(50, 10, job) == pytest.approx(0.6)
    assert factor(100, 10, job) == 1.0
    assert factor(550, 10, job) == pytest.approx(0.2 + 0.8 * 0.5)
    assert factor(1000, 10, job) == pytest.approx(0.2)
    assert factor(9999, 10, job) == pytest.approx(0.2)


def test_without_warm_up_and_fall_the_rate_is_constant() -> None:
    job = training(warmup_fraction=0.0, min_learning_rate_ratio=1.0)

    assert [factor(tokens, 10, job) for tokens in (0, 500, 2000)] == [1.0, 1.0, 1.0]


def test_gradients_are_clipped_to_the_limit_and_not_below() -> None:
    weights = Weights(Tiny(8), CPU)
    for parameter in weights.parameters:
        parameter.grad = torch.ones_like(parameter)
    norm = float(norm_of(weights))
    assert norm == pytest.approx(math.sqrt(weights.vector.numel()))

    clip(weights, norm, 1000.0)
    assert float(norm_of(weights)) == pytest.approx(norm)
    clip(weights, norm, 0.5)
    assert float(norm_of(weights)) == pytest.approx(0.5, rel=1e-4)


def test_moments_taken_elsewhere_go_on_as_if_nothing_had_been() -> None:
    def one_step(weights: Weights, optimizer: InnerOptimizer) -> None:
        for index, parameter in enumerate(weights.parameters):
            parameter.grad = torch.full_like(parameter, 0.1 * (index + 1))
        optimizer.step(500, 10)

    torch.manual_seed(0)
    first = Weights(Tiny(8), CPU)
    steps = InnerOptimizer(first, training())
    one_step(first, steps)
    second = Weights(Tiny(8), CPU)
    second.set(first.read())
    other = InnerOptimizer(second, training())
    other.load(steps.state())

    one_step(first, steps)
    one_step(second, other)

    assert torch.equal(first.vector, second.vector)


def test_bf16_only_where_it_is_asked_for_or_the_machine_is_made_for_it() -> None:
    able = torch.cpu.get_capabilities()

    assert narrow("bf16", CPU)
    assert not narrow("fp32", CPU)
    assert narrow("auto", CPU) == bool(able.get("avx512_bf16") or able.get("amx_bf16"))
    with pytest.raises(SpecError, match="expected auto, fp32 or bf16, got 'fp8'"):
        narrow("fp8", CPU)


def test_a_change_of_the_vector_is_a_change_of_the_model() -> None:
    module = Tiny(8)
    weights = Weights(module, CPU)

    weights.read()[:] = 2.0
    weights.write()

    assert float(module.embed.weight.detach().sum()) == 2.0 * 8 * 4


# -- snapshots -------------------------------------------------------------------------------------


def snapshot(value: float = 1.0) -> Snapshot:
    return Snapshot(tensors={"l": torch.full((5,), value)}, facts={"run": "r"})


def test_a_snapshot_comes_back_as_it_was_and_only_two_are_kept(tmp_path: Path) -> None:
    for value in (1.0, 2.0, 3.0):
        save(tmp_path, snapshot(value))

    found, complaints = load(tmp_path)

    assert found is not None
    assert found.tensors["l"].tolist() == [3.0] * 5
    assert found.facts == {"run": "r"}
    assert complaints == []
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "other"])
def test_a_snapshot_that_is_not_whole_is_passed_over_and_said(tmp_path: Path, harm: str) -> None:
    save(tmp_path, snapshot(1.0))
    newest = save(tmp_path, snapshot(2.0))
    content = newest.read_bytes()
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    other = content.replace(b"argosy-snapshot", b"someone-elses--")
    newest.write_bytes({"flip": flipped, "cut": content[:-3], "empty": b"", "other": other}[harm])

    found, (complaint,) = load(tmp_path)

    assert found is not None
    assert found.tensors["l"].tolist() == [1.0] * 5
    assert complaint.startswith(f"{newest.name} is damaged (")


def test_without_a_snapshot_there_is_none(tmp_path: Path) -> None:
    assert load(tmp_path / "nowhere") == (None, [])


def test_no_room_for_a_snapshot_leaves_the_old_ones_and_nothing_half_written(
    tmp_path: Path,
) -> None:
    save(tmp_path, snapshot(1.0))
    (tmp_path / "snapshot-000002.safetensors.part").mkdir()  # in its way

    with pytest.raises(DiskError, match="a snapshot could not be written"):
        save(tmp_path, snapshot(2.0))

    found, complaints = load(tmp_path)
    assert found is not None
    assert found.tensors["l"].tolist() == [1.0] * 5
    assert complaints == []


def test_snapshots_are_not_written_so_often_that_it_is_felt(tmp_path: Path) -> None:
    clock, told = Clock(), list[DiskError]()
    keeper = Keeper(tmp_path, clock, told.append)
    assert keeper.due()
    keeper.keep(snapshot())
    keeper.keep_now(snapshot())
    keeper._not_before = clock.now + 5.0

    assert not keeper.due()
    clock.now += 6.0
    assert keeper.due()
    assert told == []


def test_state_that_is_of_another_model_is_refused_whole() -> None:
    weights = Weights(Tiny(8), CPU)
    state = SiteState(
        weights=weights, optimizer=InnerOptimizer(weights, training()),
        holdings=Holdings(weights.read()),
    )  # fmt: skip
    before = weights.vector.clone()
    wrong = Snapshot(tensors={"l": torch.zeros(3)}, facts={"counters": {}})

    with pytest.raises(DamagedError, match="3 parameters for a model of"):
        state.restore(wrong)
    with pytest.raises(DamagedError, match="counters cannot be read"):
        state.restore(Snapshot(tensors={"l": torch.zeros(3)}, facts={"counters": {"x": 1}}))
    assert torch.equal(weights.vector, before)
    assert state.counters == Counters()


# -- operations ------------------------------------------------------------------------------------


def commit(*members: Member, round_: int = 1) -> Commit:
    return Commit(
        fragment=0, round=round_, term=1, plan=1, members=members,
        expired=(Expired(site="c", n=2),), tokens=7, last=False, head_seq=1, head_chain="aa",
    )  # fmt: skip


@pytest.mark.parametrize(
    "op",
    [
        ops.Train(tokens=5), ops.Post(n=3, codec="int4", block=128, moments=True), ops.Withdraw(), ops.Idle(),
        ops.Evaluate(round=2), ops.Replan(plan=4), ops.RollBack(reason="no number"),
        ops.Leave(reason="done", done=True),
        ops.Apply(
            commit=commit(Member(site="a", n=1, tokens=3, steps=1)), named=True, expired=False,
            rate=0.7, momentum=0.1 + 0.2, payloads=(b"\n\x00x", b"", b"yy"),
        ),
    ],
    ids=lambda op: type(op).__name__,
)  # fmt: skip
def test_an_operation_reaches_the_ranks_as_it_was_decided(op: ops.Op) -> None:
    assert ops.unpacked(ops.packed(op)) == op


# -- meter -----------------------------------------------------------------------------------------


def test_progress_says_where_the_time_went() -> None:
    clock = Clock()
    meter = Meter(clock)
    assert not meter.due(0.0)
    for loss in (2.0, 4.0):
        clock.now += 1.0
        meter.step(loss, 100, 1.0)
    with meter.timing("wait"):
        clock.now += 2.0
    meter.step(math.nan, 0, 0.0)

    assert meter.due()
    told = meter.progress(Counters(step=2, trained=200, round=1))

    assert (told.loss, told.tokens_per_s, told.compute_s, told.wait_s) == (3.0, 50.0, 2.0, 2.0)
    assert told.longest_gap_s == 2.0
    assert not meter.due(0.0)


# -- inbox -----------------------------------------------------------------------------------------


def contribution(n: int, *blobs: str) -> Contribution:
    shards = tuple(
        Shard(parameter="*", start=10 * i, stop=10 * i + 10, blob=blob, bytes=1)
        for i, blob in enumerate(blobs)
    )
    return Contribution(
        fragment=0, n=n, base=0, tokens=1, steps=1, trained=1, codec="fp32", form="update",
        rule="", cursor="", incarnation=1, shards=tuple(reversed(shards)),
    )  # fmt: skip


def test_what_a_commit_names_is_fetched_and_forgotten_when_it_is_applied() -> None:
    book = FakeLogbook()
    payloads = Payloads(book)
    inbox = Inbox(book, payloads, site="a")
    payloads.begin(0)
    member = Member(site="b", n=1, tokens=1, steps=1)
    book.say(("b", contribution(1, book.put(b"first"), book.put(b"second"))))
    inbox.take()
    assert payloads.of(member) is None

    book.say(commit(member))
    (heard,) = inbox.take()

    assert payloads.of(member) == b"firstsecond"
    assert isinstance(heard.body, Commit)
    payloads.forget(heard.body)
    assert payloads.of(member) is None
    assert payloads.get(member) == b"firstsecond"


def test_rounds_that_the_model_contains_already_are_not_fetched() -> None:
    book = FakeLogbook()
    payloads = Payloads(book)
    payloads.begin(1)
    member = Member(site="b", n=1, tokens=1, steps=1)
    book.say(("b", contribution(1, book.put(b"old"))))
    book.say(commit(member))

    Inbox(book, payloads, site="a").take()

    assert payloads.of(member) is None


def test_a_blob_that_came_damaged_is_asked_for_again_and_never_taken_for_void() -> None:
    book = FakeLogbook()
    payloads = Payloads(book)
    payloads.begin(0)
    member = Member(site="b", n=1, tokens=1, steps=1)
    digest = book.put(b"good")
    book.say(("b", contribution(1, digest)))
    del book.blobs[digest]
    inbox = Inbox(book, payloads, site="a")
    book.say(commit(member))

    with pytest.raises(HostError, match="fetching it again"):
        inbox.take()
    book.put(b"good")
    inbox.take()

    assert payloads.of(member) == b"good"


def test_the_seating_is_the_newest_crew_with_its_leader_s_store() -> None:
    def start(port: int) -> HostStarted:
        return HostStarted(
            address="10.0.0.1", store_port=port, torch="", python="", argosy="",
            clock_offset_ms=0, resumed_tokens=0,
        )  # fmt: skip

    book = FakeLogbook()
    inbox = Inbox(book, Payloads(book), site="a")
    book.say(Crew(site="a", epoch=1, hosts=("a-1", "a-2")))
    book.say(Crew(site="b", epoch=5, hosts=("b-1",)))
    inbox.take()
    unknown = inbox.seating

    book.say(("a", "a-1", start(700)))
    book.say(("a", "a-2", start(800)))
    inbox.take()
    first = inbox.seating
    assert unknown is None
    assert first == Seating(epoch=1, hosts=("a-1", "a-2"), address="10.0.0.1", port=700)

    book.say(Crew(site="a", epoch=2, hosts=("a-2",)))
    inbox.take()
    assert inbox.seating == Seating(epoch=2, hosts=("a-2",), address="10.0.0.1", port=800)


def test_in_threads_the_inbox_waits_out_a_logbook_that_is_away() -> None:
    book = FakeLogbook()
    book.away = True
    inbox = Inbox(book, Payloads(book), site="a")
    inbox.start()
    book.away = False
    book.say(Crew(site="a", epoch=1, hosts=("a-1",)))

    taken = inbox.take_all(30.0)
    inbox.close()

    assert [entry.seq for entry in taken] == [1]


def test_a_log_that_cannot_be_read_in_time_is_said() -> None:
    book = FakeLogbook()
    book.away = True
    inbox = Inbox(book, Payloads(book), site="a")
    inbox.start()

    with pytest.raises(HostError, match="could not be read within 0 s"):
        inbox.take_all(0.2)
    inbox.close()
