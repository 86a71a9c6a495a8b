"""Records as text: canonical JSON, and every body to it and back. Pure."""

import dataclasses
import enum
import json
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from argosy.core.errors import DamagedError
from argosy.core.records import KINDS, Body, Unknown

LARGEST = 2**53 - 1  # the integers that every JSON reader keeps exactly
KIND_OF = {body: kind for kind, body in KINDS.items()}


def canonical(value: object) -> bytes:
    """RFC 8785 for what records are made of: objects, arrays, strings, integers, booleans, null."""
    text = json.dumps(_ordered(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def parse(raw: bytes) -> dict[str, Any]:
    """An object from its canonical bytes; any other spelling of the same object is refused."""
    try:
        value = json.loads(
            raw, parse_int=_safe_int, parse_float=_no_float, parse_constant=_no_float
        )
        same = isinstance(value, dict) and canonical(value) == raw
    except (ValueError, RecursionError) as wrong:
        raise DamagedError(f"record: not canonical JSON ({wrong})") from None
    if not same:
        raise DamagedError("record: not one JSON object in canonical form (RFC 8785)")
    return dict(value)


def encode_body(body: Body) -> tuple[str, dict[str, Any]]:
    if isinstance(body, Unknown):
        return body.kind, parse(body.body.encode())
    cls: Any = type(body)
    return KIND_OF[cls], dict(_encoder(cls)(body))


def decode_body(kind: str, body: dict[str, Any]) -> Body:
    """Fields this version does not know are passed over, missing ones take their defaults."""
    cls: Any = KINDS.get(kind)
    if cls is None:
        return Unknown(kind=kind, body=canonical(body).decode())
    decoded: Body = _decoder(cls)(body, kind)
    return decoded


def _ordered(value: object) -> object:
    match value:
        case bool() | None:
            return value
        case str():
            return value
        case int():
            assert -LARGEST <= value <= LARGEST, f"integer beyond 2^53: {value}"
            return value
        case list() | tuple():
            return [_ordered(item) for item in value]
        case dict():
            assert all(isinstance(key, str) for key in value)
            # RFC 8785 orders keys by UTF-16 code units, not by code points.
            order = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
            return {key: _ordered(value[key]) for key in order}
        case _:
            raise AssertionError(f"not for a record: {type(value).__name__}")


def _safe_int(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > LARGEST:
        raise ValueError(f"integer {text[:20]} is beyond 2^53")
    return int(text)


def _no_float(text: str) -> object:
    raise ValueError(f"number {text}: floats travel as hex strings")


Encode = Callable[[Any], Any]
Decode = Callable[[Any, str], Any]  # the value and where it stands


@cache
def _encoder(kind: Any) -> Encode:
    """How values of a type become JSON: led by the type, so 3 in a float field is a float."""
    if _is_record(kind):
        return _dataclass_encoder(kind)
    if _is_union(kind):
        inner = _encoder(_not_none(kind))
        return lambda value: None if value is None else inner(value)
    if get_origin(kind) is tuple:
        return _tuple_encoder(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    assert issubclass(kind, enum.Enum), f"not for a record: {kind}"
    return lambda value: value.value


def _dataclass_encoder(kind: Any) -> Encode:
    fields = [(name, _encoder(hint)) for name, hint in _hints(kind).items()]
    return lambda value: {name: encode(getattr(value, name)) for name, encode in fields}


def _tuple_encoder(kind: Any) -> Encode:
    items = _items(kind)
    if items is None:
        each = _encoder(get_args(kind)[0])
        return lambda value: [each(item) for item in value]
    encoders = [_encoder(item) for item in items]
    return lambda value: [encode(item) for encode, item in zip(encoders, value, strict=True)]


PLAIN: dict[type, Encode] = {
    bool: bool,
    int: int,
    float: lambda value: float(value).hex(),
    # A file name may hold lone surrogates, which UTF-8 can't: they are written as escapes.
    str: lambda value: str(value).encode("utf-8", "backslashreplace").decode(),
}


@cache
def _decoder(kind: Any) -> Decode:
    if _is_record(kind):
        return _dataclass_decoder(kind)
    if _is_union(kind):
        inner = _decoder(_not_none(kind))
        return lambda value, where: None if value is None else inner(value, where)
    if get_origin(kind) is tuple:
        return _tuple_decoder(kind)
    if kind is float:
        return _float
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum_decoder(kind)

    def plain(value: Any, where: str) -> Any:
        if type(value) is not kind:
            raise DamagedError(f"{where}: expected {kind.__name__}, found {_short(value)}")
        return value

    return plain


def _dataclass_decoder(kind: Any) -> Decode:
    decoders = {name: _decoder(hint) for name, hint in _hints(kind).items()}
    required = {
        f.name
        for f in dataclasses.fields(kind)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise DamagedError(f"{where}: expected an object, found {_short(value)}")
        missing = required - value.keys()
        if missing:
            raise DamagedError(f"{where}: lacks {', '.join(sorted(missing))}")
        known = decoders.keys() & value.keys()
        return kind(**{name: decoders[name](value[name], f"{where}.{name}") for name in known})

    return decode


def _tuple_decoder(kind: Any) -> Decode:
    items = _items(kind)

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise DamagedError(f"{where}: expected an array, found {_short(value)}")
        if items is None:
            each = _decoder(get_args(kind)[0])
            return tuple(each(item, f"{where}[{i}]") for i, item in enumerate(value))
        if len(value) != len(items):
            raise DamagedError(f"{where}: expected {len(items)} items, found {len(value)}")
        return tuple(
            _decoder(k)(v, f"{where}[{i}]")
            for i, (k, v) in enumerate(zip(items, value, strict=True))
        )

    return decode


def _enum_decoder(kind: Any) -> Decode:
    def decode(value: Any, where: str) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise DamagedError(f"{where}: unknown {kind.__name__} {_short(value)}") from None

    return decode


def _float(value: Any, where: str) -> float:
    try:
        number = float.fromhex(value)
    except (TypeError, ValueError, OverflowError):
        raise DamagedError(f"{where}: expected a float in hex, found {_short(value)}") from None
    if number.hex() != value:  # one spelling for each number
        raise DamagedError(f"{where}: expected {number.hex()}, found {_short(value)}")
    return number


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _is_record(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _not_none(kind: Any) -> Any:
    (inner,) = (arg for arg in get_args(kind) if arg is not types.NoneType)
    return inner


def _items(kind: Any) -> tuple[Any, ...] | None:
    """The item types of a tuple of fixed length; None for tuple[x, ...]."""
    args = get_args(kind)
    return None if args[-1] is Ellipsis else args


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
