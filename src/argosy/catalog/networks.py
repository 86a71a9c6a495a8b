"""Shapes of well-known networks, as their published configurations have them."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from argosy.core.network import Network


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _network(row: dict[str, str]) -> Network:
    return Network(
        layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        heads=int(row["heads"]),
        kv_heads=int(row["kv_heads"]),
        ffn=int(row["ffn"]),
        vocab=int(row["vocab"]),
        gated=row["gated"] == "1",
        tied=row["tied"] == "1",
        causal=row["causal"] == "1",
        head_width=int(row["head_width"] or 0),
        experts=int(row["experts"] or 0),
        active=int(row["active"] or 1),
    )


def _read() -> tuple[dict[str, Network], dict[str, str]]:
    text = files("argosy.catalog").joinpath("networks.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    names = {
        _plain(name): row["name"]
        for row in rows
        for name in (row["name"], *row["also"].split(";"))
        if name
    }
    return {row["name"]: _network(row) for row in rows}, names


_NETWORKS, _NAMES = _read()
NETWORKS: Mapping[str, Network] = MappingProxyType(_NETWORKS)


@cache
def network(text: str) -> Network | None:
    """The network that `text` names, however it is punctuated. None where it is not known."""
    name = _NAMES.get(_plain(text))
    return None if name is None else NETWORKS[name]
