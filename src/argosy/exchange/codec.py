"""Updates as bytes. First form: signatures are final, formats follow."""

from argosy.core.errors import DamagedError
from argosy.exchange.vectors import Vector

BLOCK = 128
CODECS = ("fp32", "int8", "int4", "ternary")


class NotFinite(DamagedError):
    """An update that holds NaN or Inf; `index` is the first such value."""

    def __init__(self, what: str, *, index: int) -> None:
        super().__init__(what)
        self.index = index


def encode(x: Vector, codec: str, block: int = BLOCK) -> bytes:
    raise NotImplementedError


def decode(blob: bytes, *, count: int | None = None) -> Vector:
    raise NotImplementedError
