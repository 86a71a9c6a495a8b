"""Countries, and the blocs that a rule may name instead of them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType

ANYWHERE = "*"

_ARTICLE = ("United ", "Netherlands", "Philippines", "Bahamas", "Gambia", "Maldives")

# What people write for a country that has another code.
_OTHER_NAMES = {
    "ENGLAND": "GB",
    "GREAT BRITAIN": "GB",
    "UK": "GB",
    "EL": "GR",
    "HOLLAND": "NL",
    "KOREA": "KR",
    "TÜRKIYE": "TR",
    "USA": "US",
    "UNITED STATES OF AMERICA": "US",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bloc:
    """A group of countries under common law, as one list had it on one day."""

    name: str
    countries: frozenset[str]
    limited: Mapping[str, str]  # listed with reservations, so not in it: country -> why
    source: str  # the address of the list
    as_of: str  # the day for which we took it down


def _rows(file: str) -> list[dict[str, str]]:
    text = files("argosy.catalog").joinpath(file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _read_blocs() -> dict[str, Bloc]:
    sources = {row["source"]: row for row in _rows("sources.csv")}
    rows = _rows("blocs.csv")
    blocs = {}
    for name in dict.fromkeys(row["bloc"] for row in rows):
        mine = [row for row in rows if row["bloc"] == name]
        origin = sources[mine[0]["source"]]
        blocs[name] = Bloc(
            name=name,
            countries=frozenset(row["code"] for row in mine if row["scope"] == "whole"),
            limited=MappingProxyType(
                {row["code"]: row["note"] for row in mine if row["scope"] == "limited"}
            ),
            source=origin["url"],
            as_of=origin["as_of"],
        )
    return blocs


NAMES: Mapping[str, str] = MappingProxyType({r["code"]: r["name"] for r in _rows("countries.csv")})
BLOCS: Mapping[str, Bloc] = MappingProxyType(_read_blocs())


@cache
def expand(text: str) -> frozenset[str]:
    """The countries that `text` means: one code, a bloc, or "*" for all of them.

    Raises ValueError, worded for the person who wrote it.
    """
    if text == ANYWHERE:
        return frozenset(NAMES)
    if text in BLOCS:
        return BLOCS[text].countries
    if text in NAMES:
        return frozenset({text})
    near = _near(text, blocs=True)
    raise ValueError(f"expected a country, a bloc or '*', got {text!r}{_advice(near)}")


def check_country(text: str) -> str:
    """`text` itself, if it is the code of one country. Raises ValueError."""
    if text in NAMES:
        return text
    if text in BLOCS:
        raise ValueError(f"expected one country, got the bloc {text!r}")
    near = _near(text, blocs=False)
    raise ValueError(f"expected a country, got {text!r}{_advice(near)}")


def country_name(code: str) -> str:
    """The usual English name; the code itself where it is unknown."""
    return NAMES.get(code, code)


def place_name(text: str) -> str:
    """As a sentence names it: "Germany", "the EU", "any country"."""
    if text == ANYWHERE:
        return "any country"
    return f"the {text}" if text in BLOCS else _with_article(text)


def _with_article(code: str) -> str:
    name = country_name(code)
    return f"the {name}" if name.startswith(_ARTICLE) else name


def _near(text: str, *, blocs: bool) -> str | None:
    """The code that was probably meant."""
    wanted = text.strip().upper()
    codes = {code: code for code in NAMES} | ({name: name for name in BLOCS} if blocs else {})
    names = {name.upper(): code for code, name in NAMES.items()} | _OTHER_NAMES
    if (code := (codes | names).get(wanted)) is not None:
        return code
    # Two letters resemble too many codes to guess from; a name carries enough.
    close = get_close_matches(wanted, names, n=1, cutoff=0.75) if len(wanted) > 3 else []
    return names[close[0]] if close else None


def _advice(code: str | None) -> str:
    if code is None:
        return ": write an ISO 3166 code such as DE, JP or US"
    return f", did you mean {code!r} ({place_name(code)})?"
