"""The exchange in loops that others wrote: what a guest and an ordinary site make together."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes.engine import Tiny, Town
from fakes.guests import BATCH, GuestHosting, adamw, loss_of, sgd, workplace_file
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from argosy.core.errors import DamagedError, HostError, SpecError
from argosy.core.records import Contribution, Digest, HostEvent, HostStarted, Progress
from argosy.engine.guest import GuestOptimizer
from argosy.engine.site import Site
from argosy.engine.weights import Weights
from argosy.exchange.codec import moments_in

TWO = ("frankfurt", "tokyo")
Batches = Iterator[torch.Tensor]


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, site: Site) -> None:
    with site:
        for batch in batches:
            loss = loss_of(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            if not site.step(tokens=BATCH, loss=loss):
                break


def town(folder: Path, sites: tuple[str, ...] = TWO, **facts: object) -> Town:
    """The first site is an ordinary one."""
    made = Town(folder, sites=sites, **facts)  # type: ignore[arg-type]
    made.begin()
    made.start(sites[0])
    return made


def alone(folder: Path) -> Town:
    made = Town(folder, sites=("tokyo",))
    made.begin()
    return made


class Compiled(nn.Module):
    """What torch.compile makes of a module, as far as its names go."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self._orig_mod = inner

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self._orig_mod(tokens)
        return out


def assert_one_model_and_closed_books(run: Town) -> None:
    told: dict[int, dict[str, str]] = {}
    for entry in run.said(Digest):
        assert isinstance(entry.body, Digest)
        told.setdefault(entry.body.round, {})[entry.writer.site] = entry.body.digest
    assert set(told) == set(range(1, run.round + 1))
    assert all(set(run.sites) <= set(by_site) for by_site in told.values())
    assert all(len(set(by_site.values())) == 1 for by_site in told.values())
    for books in run.controller.agreement.ledger().values():
        assert books.trained == books.committed > 0
        assert (books.pending, books.lost) == (0, {})


def events(run: Town, what: str) -> list[str]:
    bodies = [e.body for e in run.said(HostEvent)]
    return [b.detail for b in bodies if isinstance(b, HostEvent) and b.what == what]


def end(run: Town) -> None:
    run.drain()
    run.go(Town.finished)


def test_two_guests_and_an_ordinary_site_train_one_model_to_the_end_of_the_run(
    tmp_path: Path,
) -> None:
    run = town(tmp_path, ("frankfurt", "tokyo", "virginia"))
    guests = [GuestHosting(run, name, plain) for name in ("tokyo", "virginia")]
    before = [dict(guest.model.named_parameters()) for guest in guests]

    run.go(lambda town: town.round >= 6)
    end(run)

    assert_one_model_and_closed_books(run)
    for guest, parameters in zip(guests, before, strict=True):
        assert guest.left is not None
        assert guest.left.done
        assert guest.site.over
        assert not guest.site.step(tokens=1)
        assert guest.line.closed
        assert {n: id(p) for n, p in guest.model.named_parameters()} == {
            n: id(p) for n, p in parameters.items()
        }
        assert np.array_equal(Weights(guest.model, torch.device("cpu")).read(), run.agreed())


def test_the_guests_optimizer_works_on_and_the_loss_falls(tmp_path: Path) -> None:
    run = town(tmp_path)
    guest = GuestHosting(run, "tokyo", plain)

    run.go(lambda town: town.round >= 8)
    end(run)

    parameter = next(guest.model.parameters())
    assert float(guest.optimizer.state[parameter]["step"]) == guest.site.steps
    losses = [e.body.loss for e in run.said(Progress, "tokyo") if isinstance(e.body, Progress)]
    assert losses[-1] < losses[0]
    assert guest.site.steps * BATCH == run.controller.agreement.ledger()["tokyo"].trained
    assert guest.site.round == run.round
    assert guest.site.tokens == sum(
        books.committed for books in run.controller.agreement.ledger().values()
    )


def test_an_adamw_guest_tells_its_second_moments_and_nothing_stays_hooked_to_it(
    tmp_path: Path,
) -> None:
    run = town(tmp_path, exchange={"moments": "shared"})
    guest = GuestHosting(run, "tokyo", plain)

    run.go(lambda town: len(town.said(Contribution, "tokyo")) >= 2)
    post = run.said(Contribution, "tokyo")[-1].body
    assert isinstance(post, Contribution)
    (shard,) = post.shards
    end(run)

    told = moments_in(run.book.blobs[shard.blob])
    assert told is not None
    assert told.shape == (257 + 257 + 257,)  # rows of embed and head, and each bias
    assert not guest.optimizer._optimizer_step_pre_hooks
    assert not guest.optimizer._optimizer_step_post_hooks


def test_a_row_of_the_guests_moves_at_the_pace_the_sites_agreed_on() -> None:
    layer = nn.Linear(3, 2, bias=False)
    nn.init.zeros_(layer.weight)
    weights = Weights(layer, torch.device("cpu"))
    own = torch.optim.AdamW(layer.parameters(), lr=0.01, betas=(0.0, 0.5), weight_decay=0.0)
    optimizer = GuestOptimizer(weights, own)
    layer.weight.grad = torch.ones(2, 3)
    own.step()
    before = weights.vector.clone()

    optimizer.agree([np.array([0.0, 1.5], np.float32)])
    own.step()

    moved = (weights.vector - before).view(2, 3).mean(1).tolist()
    # as for the library's own (test_moments): shares 0.5 / 0.25 and 0.5 / 1.0
    assert moved == pytest.approx([-0.01 * 2**0.5, -0.01 * 0.5**0.5], rel=1e-4)


def test_a_loop_that_ends_early_posts_what_it_has_and_goes_on_from_its_snapshot(
    tmp_path: Path,
) -> None:
    run = town(tmp_path)
    first = GuestHosting(run, "tokyo", plain, batches=15)
    run.go(lambda _: first.left is not None)
    assert first.left is not None
    assert not first.left.done
    assert first.left.reason == "its own loop has ended"
    kept = first.loop.bench.state
    counters, moments = kept.counters, kept.optimizer.state()
    assert counters.step == 15
    run.controller.expect(["frankfurt"])
    run.go(lambda town: town.round >= 5)
    local = kept.weights.read().copy()
    seen: list[np.ndarray] = []

    def looking(
        model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, site: Site
    ) -> None:
        with site:
            pass
        seen.append(Weights(model, torch.device("cpu")).read().copy())

    again = GuestHosting(run, "tokyo", looking)
    run.go(lambda _: again.left is not None)
    assert again.site.steps == 15
    restored = again.loop.bench.state.optimizer.state()
    assert {"exp_avg", "exp_avg_sq", "step"} <= set(restored)
    assert all((restored[name] == moments[name]).all() for name in ("exp_avg", "exp_avg_sq"))
    assert seen[0].shape == local.shape
    assert again.loop.bench.state.counters.trained == counters.trained

    GuestHosting(run, "tokyo", plain)
    run.controller.expect(TWO)
    more = run.round + 4
    run.go(lambda town: town.round >= more)
    end(run)
    books = run.controller.agreement.ledger()["tokyo"]
    assert books.trained == books.committed > counters.trained
    assert books.lost == {}
    assert not events(run, "optimizer")


def test_a_killed_guest_begins_again_from_the_log_and_says_that_its_optimizer_is_fresh(
    tmp_path: Path,
) -> None:
    run = town(tmp_path)
    GuestHosting(run, "tokyo", plain)
    run.go(lambda town: town.round >= 4)
    run.hosts["tokyo"].loop.bench.keeper.settle()
    for path in (tmp_path / "scratch/tokyo").glob("snapshot-*"):
        path.unlink()
    del run.hosts["tokyo"]
    run.controller.expect(["frankfurt"])
    run.go(lambda town: town.round >= 6)

    run.controller.expect(TWO)
    back = GuestHosting(run, "tokyo", plain)
    more = run.round + 4
    run.go(lambda town: town.round >= more)
    end(run)

    assert events(run, "optimizer") == ["no moments of it were kept: it begins fresh"]
    assert run.said(HostStarted, "tokyo")[-1].writer.incarnation == 2
    assert back.left is not None
    assert back.left.done
    books = run.controller.agreement.ledger()["tokyo"]
    assert books.trained == books.committed + sum(books.lost.values())
    assert np.array_equal(Weights(back.model, torch.device("cpu")).read(), run.agreed())


def test_any_other_optimizer_trains_without_telling_or_keeping_moments(tmp_path: Path) -> None:
    run = town(tmp_path)
    first = GuestHosting(run, "tokyo", plain, optimizer=sgd, batches=12)
    run.go(lambda _: first.left is not None)
    assert first.loop.bench.state.optimizer.state() == {}

    GuestHosting(run, "tokyo", plain, optimizer=sgd)
    run.go(lambda town: town.round >= 5)
    end(run)

    assert len(events(run, "optimizer")) == 1
    assert_one_model_and_closed_books(run)


def test_moments_of_a_changed_optimizer_are_not_forced_upon_it() -> None:
    layer = nn.Linear(3, 2)
    weights = Weights(layer, torch.device("cpu"))
    own = adamw(layer)
    optimizer = GuestOptimizer(weights, own)
    layer(torch.ones(1, 3)).sum().backward()
    own.step()
    kept = optimizer.state()
    assert kept["step"].tolist() == [1.0, 1.0]

    other = sgd(layer)
    now = GuestOptimizer(weights, other)
    now.load(kept)

    assert not other.state
    grad = torch.optim.AdamW(layer.parameters(), amsgrad=True)
    GuestOptimizer(weights, grad).load(kept)
    assert not grad.state


def test_a_rollback_forgets_the_guests_moments_and_it_trains_on(tmp_path: Path) -> None:
    run = town(tmp_path)
    guest = GuestHosting(run, "tokyo", plain)
    run.go(lambda town: town.round >= 3)
    guest.loop.bench.state.weights.vector[0] = float("inf")  # of a byte never seen

    run.go(lambda town: events(town, "rollback") != [])
    more = run.round + 3
    run.go(lambda town: town.round >= more)
    end(run)

    parameter = next(guest.model.parameters())
    assert float(guest.optimizer.state[parameter]["step"]) < guest.site.steps
    assert np.isfinite(run.agreed()).all()


def test_an_error_in_the_loop_leaves_a_snapshot_of_all_counted_steps(tmp_path: Path) -> None:
    run = alone(tmp_path)

    def failing(
        model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, site: Site
    ) -> None:
        with site:
            for batch in batches:
                loss_of(model, batch).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                site.step(BATCH, loss=float("nan"))
                if site.steps == 3:
                    raise ZeroDivisionError

    guest = GuestHosting(run, "tokyo", failing)
    with pytest.raises(ZeroDivisionError):
        run.go(Town.finished)

    assert guest.line.closed
    assert not run.said(Progress), "a loss that is no number is not told"
    del run.hosts["tokyo"]
    back = GuestHosting(run, "tokyo", plain)
    run.go(lambda _: hasattr(back.site, "_due"))
    assert back.site.steps == 3


def test_what_could_not_be_sent_at_the_end_is_an_error(tmp_path: Path) -> None:
    run = alone(tmp_path)
    guest = GuestHosting(run, "tokyo", plain)
    run.go(lambda town: town.round >= 1)
    guest.line.sends = False

    run.drain()
    with pytest.raises(HostError, match="the last records could not be sent"):
        run.go(Town.finished)


def test_a_step_over_nothing_is_a_mistake(tmp_path: Path) -> None:
    run = alone(tmp_path)

    def wrong(
        model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, site: Site
    ) -> None:
        with site:
            site.step(tokens=0)

    GuestHosting(run, "tokyo", wrong)
    with pytest.raises(SpecError, match="a step over 0 tokens"):
        run.go(Town.finished)


def test_a_model_that_is_moved_or_replaced_on_the_way_is_noticed(tmp_path: Path) -> None:
    run = alone(tmp_path)

    def moving(
        model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, site: Site
    ) -> None:
        with site:
            assert site.step(BATCH)
            model.double().float()
            site.step(BATCH)

    GuestHosting(run, "tokyo", moving)
    with pytest.raises(SpecError, match="moved or replaced since the site was entered"):
        run.go(Town.finished)


def test_several_processes_that_share_a_loop_are_refused(tmp_path: Path) -> None:
    run = alone(tmp_path)
    guest = GuestHosting(run, "tokyo", plain)
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())

    try:
        with pytest.raises(SpecError, match="2 processes share this loop"):
            guest.turn()
    finally:
        torch.distributed.destroy_process_group()


def test_a_model_with_other_parameters_than_the_checkpoint_is_refused(tmp_path: Path) -> None:
    run = alone(tmp_path)
    guest = GuestHosting(run, "tokyo", plain, model=Tiny(257, width=5))

    with pytest.raises(DamagedError, match="other parameters here than in the checkpoint"):
        run.go(Town.finished)

    assert guest.line.closed
    assert not guest.optimizer._optimizer_step_pre_hooks


def test_a_site_of_two_hosts_is_refused(tmp_path: Path) -> None:
    run = Town(tmp_path, sites=("tokyo",))
    fleet = run.fleet().replace("tokyo-1: {}", "tokyo-1: {}\n      tokyo-2: {}")
    run.fleet = lambda: fleet  # type: ignore[method-assign]
    run.begin()

    with pytest.raises(SpecError, match="site tokyo has 2 hosts"):
        GuestHosting(run, "tokyo", plain).turn()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Tiny(257).bfloat16(), "its parameters are bfloat16"),
        (nn.Identity(), "the model has no parameters"),
        (nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1, device="meta")]), "lie on 2 devices"),
    ],
)
def test_a_model_that_cannot_be_exchanged_is_refused(
    tmp_path: Path, model: nn.Module, said: str
) -> None:
    run = alone(tmp_path)
    guest = GuestHosting(run, "tokyo", plain, model=model, optimizer=lambda _: adamw(Tiny(257)))

    with pytest.raises(SpecError, match=said):
        guest.turn()


def test_an_optimizer_of_something_else_is_refused() -> None:
    weights = Weights(Tiny(257), torch.device("cpu"))

    with pytest.raises(SpecError, match="trains parameters that the model does not have"):
        GuestOptimizer(weights, adamw(Tiny(257)))
    with pytest.raises(SpecError, match=r"expected a torch.optim.Optimizer, got str"):
        GuestOptimizer(weights, "adamw")


def test_a_compiled_or_distributed_model_is_known_by_its_own_names(tmp_path: Path) -> None:
    run = alone(tmp_path)
    inner = Tiny(257)
    guest = GuestHosting(run, "tokyo", plain, model=Compiled(inner))

    run.go(lambda town: town.round >= 1)

    assert guest.loop.bench.state.weights.module is inner


def test_the_workplace_comes_from_the_argument_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = replace(alone(tmp_path).place("tokyo"), address="127.0.0.1")
    path = workplace_file(tmp_path, place)
    model = Tiny(257)

    monkeypatch.delenv("ARGOSY_WORKPLACE", raising=False)
    with pytest.raises(SpecError, match="no workplace"):
        Site(model, adamw(model)).__enter__()
    assert Site(model, adamw(model), workplace=str(path))._place() == place
    monkeypatch.setenv("ARGOSY_WORKPLACE", str(path))
    assert Site(model, adamw(model))._place() == place


def test_importing_argosy_loads_no_torch_and_asking_for_a_site_does() -> None:
    program = (
        "import sys, argosy; assert 'torch' not in sys.modules; argosy.Site;"
        " assert 'torch' in sys.modules; assert not hasattr(argosy, 'Port')"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
