"""Argosy: one model, trained on machines anywhere, agreed upon through one logbook."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.engine.callback import TrainerCallback
    from argosy.engine.site import Site

__all__ = ["Site", "TrainerCallback", "__version__"]
__version__ = "0.1.0"

_HOMES = {"Site": "argosy.engine.site", "TrainerCallback": "argosy.engine.callback"}


def __getattr__(name: str) -> object:
    """What needs torch comes when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
