"""The small vocabulary of both files: names, countries, yes and no, numbers with units."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from argosy.catalog import BLOCS, NAMES, check_country, expand
from argosy.spec.mistakes import expected, suggest, wrong

VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_TARGET = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
_QUANTITY = re.compile(r"([-+]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*([^\s\d].*)?")
_MONEY = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Z]{3})(?:\s*(?:/|per)\s*(?:h|hour|GB))?")


class Keys(BaseModel):
    """A section of a file: exactly these keys, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    amount: float
    currency: str | None  # None: not said, so the fleet's


def check_name(name: str) -> str | None:
    """What is wrong with a name that becomes part of folders, addresses and certificates."""
    if _NAME.fullmatch(name):
        return None
    return f"expected a name of letters, digits, '-' and '_', got {name!r}"


def _name(text: str) -> str:
    problem = check_name(text)
    if problem:
        raise wrong(problem)
    return text


def _target(text: str) -> str:
    if _TARGET.fullmatch(text) is None:
        raise expected("module:Class", text)
    return text


def _country(value: object) -> object:
    if isinstance(value, bool):
        raise expected("a country", value, "Norway is NO, in capitals or in quotes")
    if isinstance(value, str):
        _known(check_country, value)
    return value


def _place(value: object) -> object:
    if isinstance(value, bool):
        raise expected("a country or a bloc", value, "Norway is NO, in capitals or in quotes")
    if isinstance(value, str):
        _known(expand, value)
    return value


def _known(check: Any, value: str) -> None:
    try:
        check(value)
    except ValueError as error:
        raise wrong(str(error)) from error


def _currency(text: str) -> str:
    if re.fullmatch(r"[A-Z]{3}", text) is None:
        raise expected("a currency such as USD or EUR", text)
    return text


def _yes_no(value: object) -> object:
    if isinstance(value, str) and value.casefold() in ("yes", "no", "true", "false"):
        return value.casefold() in ("yes", "true")
    return value


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str | bool) else value


def _finite(value: object) -> object:
    """Numbers that a plain YAML parser would have left as text, such as 1e400, stay wrong."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise expected("a finite number", value)
    return value


def _in_units(units: Mapping[str, float]) -> BeforeValidator:
    """Reads "100 Mbit/s" as a number of the field's own unit, which is the first named."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return _finite(value)
        match = _QUANTITY.fullmatch(value.strip())
        if match is None:
            raise expected(f"a number, alone or with its unit ({', '.join(units)})", value)
        number, unit = float(match[1].replace("_", "")), (match[2] or "").strip()
        if unit and unit not in units:
            near = suggest(unit, list(units))
            raise expected(f"one of the units {', '.join(units)}", unit, near[2:] or None)
        return _finite(number * units[unit] if unit else number)

    return BeforeValidator(read)


def _count(value: object) -> object:
    """Whole numbers as people write large ones: 2e6, "2M", "2 M tokens"."""
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kMB]?)\s*(?:tokens)?", value.strip())
        if match is None:
            raise expected("a whole number, or one with k, M or B", value)
        scale = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9}[match[2]]
        value = float(match[1].replace("_", "")) * scale
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _money(value: object) -> Money:
    if isinstance(value, int | float) and not isinstance(value, bool):
        amount, currency = float(value), None
    else:
        match = _MONEY.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise expected("an amount such as 5 or '5 USD'", value)
        amount, currency = float(match[1].replace("_", "")), match[2]
    if not 0 <= amount < float("inf"):
        raise expected("at least 0", value)
    return Money(amount=amount, currency=currency)


def _number_or(example: str) -> WithJsonSchema:
    return WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"type": "string"}], "examples": [1, example]}
    )


Text = Annotated[str, Field(min_length=1)]
Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"}),
]
Target = Annotated[
    str,
    AfterValidator(_target),
    WithJsonSchema({"type": "string", "pattern": f"^{_TARGET.pattern}$"}),
]
Country = Annotated[
    str,
    BeforeValidator(_country),
    WithJsonSchema({"type": "string", "enum": sorted(NAMES)}),
]
Place = Annotated[
    str,
    BeforeValidator(_place),
    WithJsonSchema({"type": "string", "enum": ["*", *BLOCS, *sorted(NAMES)]}),
]
Currency = Annotated[
    str, AfterValidator(_currency), WithJsonSchema({"type": "string", "pattern": "^[A-Z]{3}$"})
]
YesNo = Annotated[
    bool, BeforeValidator(_yes_no), WithJsonSchema({"enum": [True, False, "yes", "no"]})
]
Number = Annotated[float, BeforeValidator(_finite)]
Count = Annotated[
    int,
    BeforeValidator(_count),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}], "examples": ["2M"]}
    ),
]
OneOrMore = BeforeValidator(_one_or_more)
MbitPerS = Annotated[
    float,
    _in_units({"Mbit/s": 1, "kbit/s": 1e-3, "Gbit/s": 1e3, "MB/s": 8, "GB/s": 8e3}),
    _number_or("100 Mbit/s"),
]
Milliseconds = Annotated[float, _in_units({"ms": 1, "s": 1e3}), _number_or("90 ms")]
Seconds = Annotated[
    float, _in_units({"s": 1, "ms": 1e-3, "min": 60, "h": 3600}), _number_or("20 s")
]
Hours = Annotated[
    float, _in_units({"h": 1, "min": 1 / 60, "s": 1 / 3600, "d": 24}), _number_or("90 min")
]
Gigabytes = Annotated[
    float, _in_units({"GB": 1, "GiB": 1.073741824, "MB": 1e-3, "TB": 1e3}), _number_or("8 GB")
]
Price = Annotated[Money, BeforeValidator(_money), _number_or("0.05 USD")]
