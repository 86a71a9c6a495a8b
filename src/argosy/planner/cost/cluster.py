"""The cards of one site and the ways between them."""

from dataclasses import dataclass

from argosy.catalog.accelerators import Accelerator


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """Equal hosts with equal cards."""

    card: Accelerator
    per_node: int
    memory_gb: float  # of a card, as this cluster has it
    node_gb_s: float  # one direction, card to card inside a host
    network_gb_s: float  # one direction, a whole host to the others

    @property
    def usable_gib(self) -> float:
        """What programs may allocate: cards are sold in GiB called GB, the driver keeps 1.2 %."""
        return self.memory_gb * 0.988


def ring(payload: float, ranks: int, *, gb_s: float, latency_s: float, passes: int = 2) -> float:
    """Seconds of a ring collective over `ranks` with `payload` bytes on every rank.

    An all-reduce passes every byte twice, a reduce-scatter or all-gather once:
    passes (n-1)/n payload / bandwidth + passes (n-1) latency (Thakur and others, 2005).
    """
    if ranks <= 1:
        return 0.0
    rounds = passes * (ranks - 1)
    return rounds / ranks * payload / (gb_s * 1e9) + rounds * latency_s
