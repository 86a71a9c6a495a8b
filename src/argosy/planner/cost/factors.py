"""The few factors by which a machine differs from its data sheet."""

from dataclasses import astuple, dataclass, fields


@dataclass(frozen=True, kw_only=True, slots=True)
class Factors:
    """Each multiplies the seconds of one cause; 1 is the catalogue's guess."""

    matrix: float = 1.0  # matrix products at the achievable rate
    traffic: float = 1.0  # operands of matrix products to and from the card's memory
    memory: float = 1.0  # element-wise kernels
    attention: float = 1.0  # the core of attention
    launch: float = 1.0  # the host's time to start kernels
    tensor: float = 1.0  # bytes among tensor- and expert-parallel ranks
    latency: float = 1.0  # rounds of collectives
    network: float = 1.0  # bytes between hosts
    pipeline: float = 1.0  # bubble
    data: float = 1.0  # bytes among data-parallel ranks
    optimizer: float = 1.0
    micro: float = 1.0  # the host's time per micro-batch
    fixed: float = 1.0  # the host's time per step


NAMES: tuple[str, ...] = tuple(field.name for field in fields(Factors))


def values(factors: Factors) -> tuple[float, ...]:
    return astuple(factors)
