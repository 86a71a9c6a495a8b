"""The hosts of a site as one process group, whose waiting can be given up.

gloo tells only ring neighbours of a dead peer and cannot cancel what is in flight (torch 2.13: the
others wait out the whole time-out; abort, shutdown and del return at once and change nothing). So
nothing here blocks inside a collective: work is started, polled against a deadline and the word of
the crew, and abandoned with its buffers when the epoch is over.
"""

import struct
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist

c10d: Any = dist  # torch's stubs leave out most of what is used here, public as it is

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

HEADER = 512  # bytes: a small message travels in one broadcast
LONGEST_POLL_S = 0.002


class EpochOver(Exception):
    """This epoch's group is done for. Drop what is in flight, form the next one."""


class Group(Protocol):
    """What a training loop asks of its site's hosts."""

    rank: int
    size: int

    def start_sum(self, tensor: "Tensor") -> "Sum":
        """Begin to add up `tensor` over all ranks, in place. Never touch it again if that fails."""
        ...

    def send(self, message: bytes | None, source: int = 0) -> bytes:
        """`message` of the source rank, at every rank."""
        ...

    def gather(self, message: bytes) -> list[bytes]:
        """Every rank's message, in rank order, at every rank."""
        ...

    def spread(self, tensor: "Tensor", source: int) -> None:
        """The source's tensor into everyone's."""
        ...


class Sum(Protocol):
    def finish(self) -> "Tensor": ...


class Alone:
    """A site of one host: every collective is the identity."""

    rank = 0
    size = 1

    def start_sum(self, tensor: "Tensor") -> Sum:
        return _Done(tensor)

    def send(self, message: bytes | None, source: int = 0) -> bytes:
        assert message is not None
        assert source == 0
        return message

    def gather(self, message: bytes) -> list[bytes]:
        return [message]

    def spread(self, tensor: "Tensor", source: int) -> None:
        """Everyone has it already."""


class EpochGroup:
    """Process groups made directly on a store, for one epoch; the default group is never used."""

    def __init__(
        self, store: Any, rank: int, size: int, rules: "Rules", *, cuda: bool = False
    ) -> None:
        self.rank = rank
        self.size = size
        self._rules = rules
        try:
            self._gloo = gloo(c10d.PrefixStore("gloo", store), rank, size, rules)
            self._nccl = nccl(c10d.PrefixStore("nccl", store), rank, size, rules) if cuda else None
        except (RuntimeError, c10d.DistError) as error:
            raise EpochOver(f"the group could not be formed: {_first_line(error)}") from error

    def start_sum(self, tensor: "Tensor") -> Sum:
        return _Running(tensor, self._started(self._for(tensor).allreduce, [tensor]), self)

    def send(self, message: bytes | None, source: int = 0) -> bytes:
        head = torch.zeros(HEADER, dtype=torch.uint8)
        if self.rank == source:
            assert message is not None
            head[:8] = _bytes(struct.pack("<Q", len(message)))
            inline = message[: HEADER - 8]
            head[8 : 8 + len(inline)] = _bytes(inline)
        self.spread(head, source)
        (size,) = struct.unpack("<Q", head[:8].numpy().tobytes())
        start = head[8 : min(HEADER, 8 + size)].numpy().tobytes()
        if len(start) == size:
            return start
        rest = torch.empty(size - len(start), dtype=torch.uint8)
        if message is not None and self.rank == source:
            rest = _bytes(message[len(start) :])
        self.spread(rest, source)
        return start + rest.numpy().tobytes()

    def gather(self, message: bytes) -> list[bytes]:
        return [self.send(message, source) for source in range(self.size)]

    def spread(self, tensor: "Tensor", source: int) -> None:
        options = c10d.BroadcastOptions()
        options.rootRank, options.rootTensor = source, 0
        self.wait(self._started(self._for(tensor).broadcast, [tensor], options))

    def wait(self, work: Any) -> None:
        """Until the work is done, the epoch is over, or nobody has answered for too long."""
        deadline = time.monotonic() + self._rules.within_s
        pause_s = 0.00002
        while not work.is_completed():
            if reason := self._rules.over():
                raise EpochOver(reason)
            if time.monotonic() > deadline:
                raise EpochOver(f"no answer inside the site for {self._rules.within_s:.0f} s")
            time.sleep(pause_s)
            pause_s = min(LONGEST_POLL_S, pause_s * 1.5)
        try:
            work.wait()
        except RuntimeError as error:
            raise EpochOver(_first_line(error)) from error

    def _for(self, tensor: "Tensor") -> Any:
        return self._nccl if self._nccl is not None and tensor.is_cuda else self._gloo

    @staticmethod
    def _started(collective: "Callable[..., Any]", *arguments: object) -> Any:
        try:
            return collective(*arguments)
        except RuntimeError as error:  # a peer that is known to be gone
            raise EpochOver(_first_line(error)) from error


class Rules:
    """How long a rank waits, who tells it to stop, and which interface it speaks on."""

    def __init__(
        self, over: "Callable[[], str | None]", *, within_s: float, address: str = "127.0.0.1"
    ) -> None:
        self.over = over
        self.within_s = within_s
        self.address = address

    @property
    def timeout(self) -> timedelta:
        """After which gloo lets go of what was abandoned: its buffers and a thread."""
        return timedelta(seconds=self.within_s)


def gloo(store: Any, rank: int, size: int, rules: Rules) -> Any:
    options = c10d.ProcessGroupGloo._Options()
    options._devices = [c10d.ProcessGroupGloo.create_device(hostname=rules.address)]
    options._timeout = rules.timeout
    return c10d.ProcessGroupGloo(store, rank, size, options)


def nccl(store: Any, rank: int, size: int, rules: Rules) -> Any:
    options = c10d.ProcessGroupNCCL.Options()
    options._timeout = rules.timeout
    return c10d.ProcessGroupNCCL(store, rank, size, options)


class _Done:
    def __init__(self, tensor: "Tensor") -> None:
        self._tensor = tensor

    def finish(self) -> "Tensor":
        return self._tensor


class _Running:
    def __init__(self, tensor: "Tensor", work: Any, group: EpochGroup) -> None:
        self._tensor = tensor
        self._work = work
        self._group = group

    def finish(self) -> "Tensor":
        self._group.wait(self._work)
        return self._tensor


def _bytes(data: bytes) -> "Tensor":
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
