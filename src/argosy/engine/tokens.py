"""Text to tokens and back: plain bytes, or a tokenizer.json of the tokenizers library."""

import hashlib
import math
from typing import TYPE_CHECKING, Protocol

from argosy.core.errors import SpecError
from argosy.data.tokens import Coding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import tokenizers

BYTES = "bytes"
ENDS = (  # what known vocabularies call the end of a document
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<|im_end|>", "[EOS]", "[SEP]",
)  # fmt: skip


class Tokenizer(Protocol):
    """Two kinds, one shape. `end` stands between two documents and is worth no bytes."""

    name: str  # as the job names it
    identity: str  # another one whenever `encode` changes
    vocabulary: int
    end: int

    def encode(self, text: str) -> list[int]:
        """The text's tokens, without `end`."""
        ...

    def decode(self, tokens: "Iterable[int]") -> str:
        """The text of any stretch of tokens; what is half a character at its edges becomes �."""
        ...

    def byte_count(self, tokens: "Iterable[int]") -> int:
        """How many bytes of UTF-8 text the tokens stand for."""
        ...


def open_tokenizer(name: str, root: "Path") -> Tokenizer:
    """training.tokenizer of a job: "bytes", or a path relative to the job's folder."""
    return ByteTokenizer() if name == BYTES else FileTokenizer(name, root / name)


def coding(tokenizer: Tokenizer) -> Coding:
    """What the data room needs of a tokenizer."""
    plain = isinstance(tokenizer, ByteTokenizer)
    return Coding(
        identity=tokenizer.identity,
        vocabulary=tokenizer.vocabulary,
        end=tokenizer.end,
        encode=str.encode if plain else tokenizer.encode,  # bytes are quicker than a list
    )


def bytes_per_token(tokenizer: Tokenizer, tokens: "Iterable[int]") -> float:
    listed = list(tokens)
    return tokenizer.byte_count(listed) / len(listed) if listed else 0.0


def bits_per_byte(nats_per_token: float, bytes_per_token: float) -> float:
    """The loss that does not depend on the tokenizer."""
    return nats_per_token / math.log(2) / bytes_per_token if bytes_per_token else math.inf


class ByteTokenizer:
    """256 values, and one for the end of a document: no vocabulary to learn, ship or mistrust."""

    name = identity = BYTES
    vocabulary = 257
    end = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: "Iterable[int]") -> str:
        return bytes(token for token in tokens if token < 256).decode(errors="replace")

    def byte_count(self, tokens: "Iterable[int]") -> int:
        return sum(1 for token in tokens if token < 256)


class FileTokenizer:
    """A tokenizer.json. Its own end-of-document token, or one more token where it has none."""

    def __init__(self, name: str, path: "Path") -> None:
        self.name = name
        self.path = path
        self._tokenizer = _load(name, path)
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        known = max(vocabulary.values(), default=-1) + 1
        self.end_name = next((end for end in ENDS if end in vocabulary), "")
        self.end = vocabulary.get(self.end_name, known)
        self.vocabulary = max(known, self.end + 1)
        self.identity = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: "Iterable[int]") -> str:
        inner = [int(token) for token in tokens if token != self.end]
        return str(self._tokenizer.decode(inner, skip_special_tokens=False))

    def byte_count(self, tokens: "Iterable[int]") -> int:
        return len(self.decode(tokens).encode())


def _load(name: str, path: "Path") -> "tokenizers.Tokenizer":
    where = "training.tokenizer"
    if not path.is_file():
        raise SpecError(
            f"no tokenizer file {name}",
            where=where,
            hint=f"expected {path}; or write tokenizer: bytes",
        )
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise SpecError(
            f"{name} is not a tokenizer.json: {str(error).splitlines()[0]}",
            where=where,
            hint="expected the file that transformers writes as tokenizer.json",
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
