"""All that a site's host holds of a run: model, agreed model, residual, moments, counters."""

import contextlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from argosy.core.errors import DamagedError
from argosy.data.order import Cursor
from argosy.engine.snapshot import Snapshot
from argosy.exchange.codec import encode_moments
from argosy.exchange.holdings import Holdings
from argosy.exchange.payload import mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from argosy.engine.group import Group
    from argosy.engine.paced import Paced
    from argosy.engine.weights import Weights

OPTIMIZER = "optimizer."
Moments = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """Where the site stands. The same at all ranks after every operation."""

    turn: int = 0  # operations completed: the furthest rank's state counts after a regroup
    step: int = 0  # optimizer steps of this site, ever
    round: int = 0  # that the agreed model is of
    committed: int = 0  # tokens of the run, up to that round
    n: int = 0  # the newest post that this state has made, or begun after
    mark: str = ""  # of that post's payload, if this state has made it: n is used again
    trained: int = 0  # this site's tokens, as DESIGN rule 12 counts them
    tokens: int = 0  # trained since the newest post
    steps: int = 0
    open_n: int | None = None  # the post whose fate is open
    open_tokens: int = 0
    open_steps: int = 0
    cursor: str = Cursor().text()


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A commit as one site takes it."""

    round: int
    committed: int  # tokens, up to this round
    named: bool
    expired: bool
    rate: float  # of the outer step, by the commit's plan
    momentum: float


@dataclass(kw_only=True, slots=True)
class SiteState:
    """Ranks hold equal copies; every method changes all of it or nothing."""

    weights: "Weights"
    optimizer: "Paced"
    holdings: Holdings
    counters: Counters = field(default_factory=Counters)

    @property
    def parameters(self) -> int:
        return self.holdings.a.size

    def begin(
        self, a: "np.ndarray", v: "np.ndarray", counters: Counters, moments: Moments | None = None
    ) -> None:
        """From the agreed model: l = a, e = 0, nothing open; moments only if some are handed in."""
        self.holdings = Holdings(a, v)
        self.weights.set(self.holdings.a)
        self.optimizer.load(moments or {})
        self.counters = replace(
            counters, turn=self.counters.turn + 1, mark="", tokens=0, steps=0, open_n=None,
            open_tokens=0, open_steps=0,
        )  # fmt: skip

    def trained(self, tokens: int, cursor: str) -> None:
        """An optimizer step was taken; `tokens` 0 when it was skipped."""
        now = self.counters
        taken = 1 if tokens else 0
        self.counters = replace(
            now, turn=now.turn + 1, step=now.step + taken, trained=now.trained + tokens,
            tokens=now.tokens + tokens, steps=now.steps + taken, cursor=cursor,
        )  # fmt: skip

    def finite(self) -> bool:
        return bool(torch.isfinite(self.weights.vector).all())

    def frame(self, codec: str, block: int, stretch: slice, *, moments: bool = False) -> bytes:
        """A rank's stretch of the site's difference, encoded, and the second moments of all rows
        behind it where they are asked for. Changes nothing."""
        if stretch.start == stretch.stop:
            return b""
        local = self.weights.read()
        frame = self.holdings.encode(local, codec, block, start=stretch.start, stop=stretch.stop)
        rows = self.optimizer.moments() if moments else None
        return frame if rows is None else frame + encode_moments(rows)

    def posted(self, payload: bytes, n: int) -> None:
        self.holdings.posted(self.weights.read(), payload)
        now = self.counters
        self.counters = replace(
            now, turn=now.turn + 1, n=n, mark=mark(payload), tokens=0, steps=0, open_n=n,
            open_tokens=now.tokens, open_steps=now.steps,
        )  # fmt: skip

    def withdraw(self) -> None:
        """The open post does not count: its difference is still in l and goes with the next."""
        self.holdings.expire()
        now = self.counters
        self.counters = replace(
            now, turn=now.turn + 1, tokens=now.tokens + now.open_tokens,
            steps=now.steps + now.open_steps, open_n=None, open_tokens=0, open_steps=0,
        )  # fmt: skip

    def apply(self, took: Step, mean: "np.ndarray") -> None:
        """Take the outer step of a commit and carry the local progress over it."""
        if took.expired:
            self.withdraw()
        local = self.weights.read()
        self.holdings.apply(local, mean, took.rate, took.momentum, named=took.named)
        self.weights.write()
        now = replace(
            self.counters, turn=self.counters.turn + 1, round=took.round, committed=took.committed
        )
        if took.named:
            now = replace(now, open_n=None, open_tokens=0, open_steps=0)
        self.counters = now

    def reset(self) -> None:
        """Roll back to the agreed model: what was trained beyond it, and not posted, is lost."""
        self.begin(self.holdings.a, self.holdings.v, self.counters)

    @contextlib.contextmanager
    def agreed(self) -> "Iterator[None]":
        """The module holds the agreed model inside."""
        local = self.weights.vector.clone()
        self.weights.set(self.holdings.a)
        try:
            yield
        finally:
            self.weights.vector.copy_(local)

    def snapshot(self, facts: "Mapping[str, str]") -> Snapshot:
        """A copy of everything, which nobody changes any more."""
        tensors = {name: tensor.clone() for name, tensor in self._tensors().items()}
        tensors["random"] = torch.get_rng_state()
        return Snapshot(tensors=tensors, facts={**facts, "counters": asdict(self.counters)})

    def restore(self, snapshot: Snapshot) -> None:
        """Take a snapshot over, or refuse it whole."""
        counters = counters_in(snapshot)
        held = {
            name: tensor.numpy()
            for name, tensor in snapshot.tensors.items()
            if not name.startswith(OPTIMIZER) and name != "random"
        }
        local = held.pop("l")
        if local.size != self.parameters:
            raise DamagedError(
                f"a snapshot of {local.size} parameters for a model of {self.parameters}"
            )
        self.holdings = Holdings.from_arrays(held)
        self.weights.set(local)
        self.optimizer.load(moments_in(snapshot))
        self.counters = counters
        if "random" in snapshot.tensors:
            torch.set_rng_state(snapshot.tensors["random"])

    def share(self, group: "Group", source: int) -> None:
        """All ranks take the source's state; nothing changes here before it has all come."""
        if group.size == 1:
            return
        mine = self._tensors() if group.rank == source else {}
        shapes = [[name, list(tensor.shape)] for name, tensor in mine.items()]
        told: dict[str, Any] = {"counters": asdict(self.counters), "tensors": shapes}
        told = json.loads(group.send(json.dumps(told).encode(), source))
        came = {}
        for name, shape in told["tensors"]:
            came[name] = mine[name] if name in mine else torch.empty(shape)
            group.spread(came[name], source)
        if group.rank != source:
            self.restore(Snapshot(tensors=came, facts={"counters": told["counters"]}))

    def _tensors(self) -> dict[str, torch.Tensor]:
        held = self.holdings.to_arrays()
        tensors = {name: torch.from_numpy(vector) for name, vector in held.items()}
        tensors["l"] = torch.from_numpy(self.weights.read())
        moments = self.optimizer.state()
        return tensors | {OPTIMIZER + name: tensor for name, tensor in moments.items()}


def counters_in(snapshot: Snapshot) -> Counters:
    try:
        return Counters(**snapshot.facts["counters"])
    except (KeyError, TypeError) as error:
        raise DamagedError(f"a snapshot whose counters cannot be read: {error}") from error


def moments_in(snapshot: Snapshot) -> Moments:
    """The inner optimizer's part: worth having even where the rest is out of date."""
    return {
        name.removeprefix(OPTIMIZER): tensor
        for name, tensor in snapshot.tensors.items()
        if name.startswith(OPTIMIZER)
    }


def stretch_of(rank: int, size: int, parameters: int, block: int) -> slice:
    """The rank's share of the flat vector, cut where codec blocks begin."""
    blocks = -(-parameters // block)
    cuts = [min(parameters, blocks * part // size * block) for part in (rank, rank + 1)]
    return slice(*cuts)
