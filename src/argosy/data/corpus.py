"""A source as one site may see it: asked of the policy, opened, recorded, turned into tokens."""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from argosy.core.errors import PolicyError, SpecError
from argosy.core.law import Form, Policy
from argosy.core.records import Access
from argosy.data import cache, files
from argosy.data.order import Sequences
from argosy.data.tokens import Coding, Counts, Tokens, encoded
from argosy.policy import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from argosy.core.job import Source

_FORMAT = 1  # of the cache: another one when reading or splitting changes


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """An opened source, as its files were then."""

    source: "Source"
    files: tuple[files.TextFile, ...]
    rule: str  # why it may be opened here

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def digest(self) -> str:
        joined = b"".join(file.sha256 for file in self.files)
        return f"sha256:{hashlib.sha256(joined).hexdigest()}"

    def access(self, purpose: str) -> Access:
        """The record of this opening. Append it before the first batch is made."""
        return Access(
            source=self.source.name,
            purpose=purpose,
            files=len(self.files),
            bytes=self.bytes,
            digest=self.digest,
            rule=self.rule,
        )

    def documents(self) -> "Iterator[str]":
        for file in self.files:
            yield from files.documents(file, self.source.text_field)

    def tokens(self, coding: Coding, scratch: "Path | None") -> Tokens:
        """All of it as tokens, from the cache in `scratch` if it is there, else written to it.

        Raises DiskError when the cache can't be written; call again with None to go without.
        """
        parts = encoded(self.documents(), coding, self.source.held_out)
        if scratch is None:
            arrays = cache.in_memory(coding.dtype, parts)
        else:
            key = self._key(coding)
            arrays = cache.load(scratch, key, coding.dtype) or cache.store(
                scratch, key, coding.dtype, parts
            )
        cut = arrays.trained.tokens
        require_text(self.source, self.files, arrays.trained, arrays.held)
        return Tokens(
            source=self.source.name,
            train=arrays.tokens[:cut],
            held_out=arrays.tokens[cut:],
            trained=arrays.trained,
            held=arrays.held,
        )

    def _key(self, coding: Coding) -> str:
        """Names the tokens by everything they depend on."""
        told = json.dumps(
            {
                "format": _FORMAT,
                "files": [[file.name.rpartition("/")[2], file.sha256.hex()] for file in self.files],
                "field": self.source.text_field,
                "held_out": self.source.held_out,
                "coding": [coding.identity, coding.vocabulary, coding.end],
            },
            sort_keys=True,
        )
        return f"tokens-{hashlib.sha256(told.encode()).hexdigest()[:32]}"


def require_text(
    source: "Source", found: tuple[files.TextFile, ...], trained: Counts, held: Counts
) -> None:
    """Refuses a source in which one of its two parts holds nothing."""
    size = sum(file.size for file in found)
    if not size:
        raise SpecError(
            f"source {source.name} is empty",
            where=source.where or None,
            hint=f"{len(found)} file(s) at {source.path}, all of them 0 bytes",
        )
    if not trained.tokens:
        raise SpecError(
            f"source {source.name} holds no text",
            where=source.where or None,
            hint=f"{len(found)} file(s) were read, {size} bytes, all of them blank",
        )
    if source.held_out and not held.tokens:
        raise SpecError(
            f"source {source.name} is one document: nothing can be held out for evaluation",
            where=source.where or None,
            hint="part the text by blank lines or over several lines, or say held_out: 0",
        )


def open_source(source: "Source", root: "Path", *, site_country: str, policy: Policy) -> Corpus:
    """Ask the policy, then look at every byte of the source once. No file is touched before."""
    where = source.where or None
    said = verdict(policy, Form.RAW, source, site_country)
    if not said.allowed:
        raise PolicyError(
            f"source {source.name} may not be opened in {site_country}: {said.reason}",
            where=where,
            hint=f"train it at a site in {source.country}, or add a rule that allows raw data of "
            f"it in {site_country}",
        )
    found = tuple(files.examine(path, name) for path, name in files.find(source, root))
    if not sum(file.size for file in found):
        raise SpecError(
            f"source {source.name} is empty",
            where=where,
            hint=f"{len(found)} file(s) at {source.path}, all of them 0 bytes",
        )
    return Corpus(source=source, files=found, rule=said.reason)


def training(sources: "Iterable[Tokens]", *, sequence: int, seed: int) -> Sequences:
    """What a site trains on: all its sources, mixed in proportion to their size."""
    return Sequences({each.source: each.train for each in sources}, sequence=sequence, seed=seed)


def held_out(source: Tokens, *, sequence: int) -> Sequences:
    """What evaluation sees of one source: take windows of it by `spread`."""
    if source.held.tokens <= sequence:
        raise SpecError(
            f"what is held out is shorter than one sequence: {source.held.tokens} tokens, "
            f"{sequence + 1} are needed",
            where=f"source {source.source}",
            hint="add text, raise held_out, or lower training.sequence",
        )
    return Sequences({source.source: source.held_out}, sequence=sequence)
