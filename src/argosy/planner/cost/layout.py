"""A layout: how one step of a network is cut over cards."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Shard(IntEnum):
    """What data-parallel ranks keep only their part of (ZeRO stages; FSDP is the third)."""

    NOTHING = 0
    OPTIMIZER = 1
    GRADIENTS = 2
    WEIGHTS = 3


class Recompute(StrEnum):
    """What the backward pass computes anew instead of keeping it."""

    NONE = "none"
    SELECTIVE = "selective"  # attention scores only
    FULL = "full"  # whole layers from their inputs


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Ranks = tensor x pipeline x context x data. A step is `accumulation` micro-batches a rank."""

    sequence: int
    micro_batch: int = 1
    accumulation: int = 1
    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1  # pieces of the stack per pipeline rank (interleaved schedule)
    context: int = 1
    expert: int = 1
    data: int = 1
    shard: Shard = Shard.NOTHING
    recompute: Recompute = Recompute.NONE
    flash: bool = True  # attention that never stores its scores
    sequence_parallel: bool = False
    overlap: bool = True  # data-parallel traffic runs under the backward pass
    precision: str = "bf16"  # of the matrix products: fp32, tf32, fp16, bf16, fp8
    mixed: bool = True  # fp32 master weights beside 16-bit ones
    trainable: float = 1.0  # share of the parameters that learn (adapters: far below 1)
    base_bits: float = 0.0  # per frozen weight where those are quantised
    optimizer_bytes: float = 8.0  # per learning parameter, without master weights
    gradient_bytes: float = 0.0  # per learning parameter; 0: as wide as a working weight
    offload: bool = False  # optimizer states in host memory
    stages: tuple[int, ...] = ()  # layers per pipeline stage; (): as even as can be

    @property
    def ranks(self) -> int:
        return self.tensor * self.pipeline * self.context * self.data

    @property
    def tokens(self) -> float:
        """Of one micro-batch on one rank, before tensor parallelism."""
        return self.micro_batch * self.sequence / self.context

    @property
    def width(self) -> int:
        """Bytes of one activation or working weight."""
        return 4 if self.precision in {"fp32", "tf32"} else 2

    def split(self, layers: int) -> tuple[int, ...]:
        """Layers of each stage, the first ones one more where it does not come out even."""
        if self.stages:
            return self.stages
        least, more = divmod(layers, self.pipeline)
        return tuple(least + (stage < more) for stage in range(self.pipeline))
