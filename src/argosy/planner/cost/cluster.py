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
