"""A machine with round numbers, and a network small enough to count by hand."""

from dataclasses import replace
from typing import Any

from argosy.catalog.accelerators import Accelerator
from argosy.core.network import Network
from argosy.planner.cost.cluster import Cluster
from argosy.planner.cost.factors import NAMES, Factors
from argosy.planner.cost.layout import Layout

# 1e14 operations and 1e12 bytes a second
CARD = Accelerator(
    name="round",
    also=(),
    architecture="none",
    capability="9.0",
    memory_gb=10.0,
    memory_gb_s=1000.0,
    peak={"fp16": 100.0, "fp32": 10.0},
    sustained=1.0,
    link="NVLink",
    link_gb_s=100.0,
    source="made up",
)
CLUSTER = Cluster(card=CARD, per_node=4, memory_gb=10.0, node_gb_s=100.0, network_gb_s=40.0)
NETWORK = Network(layers=2, hidden=4, heads=2, kv_heads=2, ffn=16, vocab=10)
LAYOUT = Layout(sequence=8, precision="fp16")


def only(name: str) -> Factors:
    """One cause at its guess, everything else free."""
    return Factors(**{other: float(other == name) for other in NAMES})


def layout(**changes: Any) -> Layout:
    return replace(LAYOUT, **changes)


def network(**changes: Any) -> Network:
    return replace(NETWORK, **changes)
