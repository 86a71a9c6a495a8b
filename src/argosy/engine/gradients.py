"""The gradients of one optimizer step, added up over the site's hosts while backward still runs.

DistributedDataParallel finds the buckets and calls back when one is full. Its own process group
holds this rank alone; the sum over the epoch's group is started in the hook and awaited after
backward, where waiting can be given up (the reducer's own wait cannot).
"""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel

from argosy.engine.group import Rules, c10d, gloo, nccl

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from argosy.engine.group import Group, Sum


class OwnGradients:
    """A site of one host has nobody to add up with."""

    def __init__(self, module: "nn.Module") -> None:
        self.module = module

    def kept_back(self) -> "AbstractContextManager[None]":
        return nullcontext()

    def finish(self) -> None:
        """All there."""


class SharedGradients:
    """Made anew for every epoch: a reducer that lost a step is not asked again."""

    def __init__(self, module: "nn.Module", group: "Group", device: torch.device) -> None:
        self._group = group
        self._running: list[tuple[Tensor, Sum]] = []
        # Without find_unused_parameters each rank would rebuild its buckets in the order its own
        # gradients came, and nothing would check that the ranks agree on it.
        self._replica = DistributedDataParallel(
            module,
            process_group=_only_me(device),
            find_unused_parameters=True,
            gradient_as_bucket_view=True,
        )
        self._replica.register_comm_hook(None, self._hook)
        self.module: nn.Module = self._replica

    def kept_back(self) -> "AbstractContextManager[None]":
        """Accumulate only: no bucket is sent inside."""
        return self._replica.no_sync()

    def finish(self) -> None:
        """Wait for every bucket and put the sums where the gradients lie."""
        running, self._running = self._running, []
        for bucket, total in running:
            bucket.copy_(total.finish())

    def _hook(self, _, bucket):  # type: ignore[no-untyped-def] # DDP wants its own words or none
        buffer: Tensor = bucket.buffer()
        self._running.append((buffer, self._group.start_sum(buffer.clone())))
        at_once: torch.futures.Future[Tensor] = torch.futures.Future()
        at_once.set_result(buffer)
        return at_once


def _only_me(device: torch.device) -> Any:
    store = c10d.HashStore()
    rules = Rules(lambda: None, within_s=60.0)
    alone = c10d.ProcessGroup(store, 0, 1)
    kinds = c10d.ProcessGroup.BackendType
    alone._register_backend(
        torch.device("cpu"), kinds.GLOO, gloo(c10d.PrefixStore("gloo", store), 0, 1, rules)
    )
    if device.type == "cuda":
        alone._register_backend(
            device, kinds.NCCL, nccl(c10d.PrefixStore("nccl", store), 0, 1, rules)
        )
    alone._set_default_backend(kinds.NCCL if device.type == "cuda" else kinds.GLOO)
    return alone
