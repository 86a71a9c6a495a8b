"""What a site holds of the exchange, and the arithmetic that carries its progress across commits.

The vectors are named as in DESIGN section 5, rule 2: `a` agreed, `v` the outer velocity, `p` the
local model as it was when posted, `e` the residual of the codec, `e_pending` what the residual
becomes once the post is named. The local model `l` stays with the caller and is handed in.
"""

from collections.abc import Mapping

import numpy as np

from argosy.exchange.codec import BLOCK, decode, encode
from argosy.exchange.outer import outer_step
from argosy.exchange.vectors import STRETCH, Vector, stretches


class Holdings:
    """One site's vectors. All of them are changed in place; none is shared with the caller."""

    def __init__(self, a: Vector, v: Vector | None = None) -> None:
        self.a = np.array(a, dtype=np.float32)
        self.v = np.zeros_like(self.a) if v is None else np.array(v, dtype=np.float32)
        self.e = np.zeros_like(self.a)
        self.p: Vector | None = None
        self.e_pending: Vector | None = None

    def post(self, local: Vector, codec: str, block: int = BLOCK) -> bytes:
        """Encode the site's difference and remember what it said: payload = encode(a - l + e)."""
        payload = self.encode(local, codec, block)
        self.posted(local, payload)
        return payload

    def encode(
        self,
        local: Vector,
        codec: str,
        block: int = BLOCK,
        *,
        start: int = 0,
        stop: int | None = None,
    ) -> bytes:
        """The frame for start..stop. The frames of all stretches, joined in order, are a payload
        (its bytes depend on the cut where `start` is no multiple of `block`)."""
        part = slice(start, self.a.size if stop is None else stop)
        difference = self.a[part] - local[part]
        np.add(difference, self.e[part], out=difference)
        return encode(difference, codec, block)

    def posted(self, local: Vector, payload: bytes) -> None:
        """Take `payload` as this site's post: p = l, and e' = (a - l) + e - decode(payload).

        A post that was still open is dropped, as when it expires: SiteSide.can_post() says when.
        """
        sent = decode(payload, count=self.a.size)
        if self.p is None or self.e_pending is None:
            self.p, self.e_pending = np.empty_like(self.a), np.empty_like(self.a)
        for part in stretches(self.a.size):
            rest = self.e_pending[part]
            np.subtract(self.a[part], local[part], out=rest)
            np.add(rest, self.e[part], out=rest)
            np.subtract(rest, sent[part], out=rest)
        np.copyto(self.p, local)

    def apply(
        self,
        local: Vector,
        mean: Vector,
        lr: float,
        momentum: float,
        *,
        named: bool,
    ) -> None:
        """Take the outer step and carry `l` over onto the new model, in place.

        Named: e <- e';  l <- a_new + (l - p). Otherwise l and an open p move with the model:
        l <- l + (a_new - a);  p <- p + (a_new - a).
        """
        if named:
            self._carry_named(local, mean, lr, momentum)
        else:
            self._carry(local, mean, lr, momentum)

    def expire(self) -> None:
        """Forget the open post: its difference stays in l and goes with the next one."""
        self.p = self.e_pending = None

    def reset(self) -> None:
        """Begin again from the agreed model (rules 2 and 8): no residual, no open post."""
        self.expire()
        self.e.fill(0)

    def to_arrays(self) -> dict[str, Vector]:
        """The vectors by name, not copied. `p` and `e_pending` only while a post is open."""
        arrays = {"a": self.a, "v": self.v, "e": self.e}
        if self.p is not None and self.e_pending is not None:
            arrays |= {"p": self.p, "e_pending": self.e_pending}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Vector]) -> "Holdings":
        held = cls(arrays["a"], arrays["v"])
        np.copyto(held.e, arrays["e"])
        if "p" in arrays:
            held.p = np.array(arrays["p"], dtype=np.float32)
            held.e_pending = np.array(arrays["e_pending"], dtype=np.float32)
        return held

    def _carry_named(self, local: Vector, mean: Vector, lr: float, momentum: float) -> None:
        assert self.p is not None, "named, but nothing is open"
        assert self.e_pending is not None
        for part in stretches(self.a.size):
            outer_step(self.a[part], self.v[part], mean[part], lr, momentum)
            np.subtract(local[part], self.p[part], out=local[part])
            np.add(self.a[part], local[part], out=local[part])
        self.e, self.e_pending, self.p = self.e_pending, None, None

    def _carry(self, local: Vector, mean: Vector, lr: float, momentum: float) -> None:
        before = np.empty(min(STRETCH, self.a.size), dtype=np.float32)
        for part in stretches(self.a.size):
            shift = before[: part.stop - part.start]
            np.copyto(shift, self.a[part])
            outer_step(self.a[part], self.v[part], mean[part], lr, momentum)
            np.subtract(self.a[part], shift, out=shift)
            np.add(local[part], shift, out=local[part])
            if self.p is not None:
                np.add(self.p[part], shift, out=self.p[part])
