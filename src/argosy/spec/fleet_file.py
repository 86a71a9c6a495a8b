"""fleet.yaml as a Fleet."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.config import JsonDict

from argosy.core.errors import SpecError
from argosy.core.fleet import LOGBOOK, Fleet, Host, Link, Site
from argosy.core.records import CONTROLLER
from argosy.spec import faults, text
from argosy.spec.document import Document, document
from argosy.spec.document import Path as Keypath
from argosy.spec.mistakes import Mistake, refuse
from argosy.spec.reading import checked, repeated
from argosy.spec.words import (
    Country,
    Currency,
    Gigabytes,
    Keys,
    MbitPerS,
    Milliseconds,
    Money,
    Price,
    Text,
    YesNo,
    check_name,
)

_FREE = Money(amount=0.0, currency=None)
_NO_COST: JsonDict = {"default": 0}
_RESERVED = (CONTROLLER, LOGBOOK, "checkpointer", "export", "relay", "server")


class HomeKeys(Keys):
    country: Country = Field(description="where controller and logbook stand")


class LinkKeys(Keys):
    mbit_per_s: Annotated[MbitPerS, Field(gt=0)] = Field(
        description="bandwidth to the logbook: 100 or '100 Mbit/s'"
    )
    rtt_ms: Annotated[Milliseconds, Field(ge=0)] = Field(
        description="round-trip time to the logbook: 90 or '90 ms'"
    )
    jitter_ms: Annotated[Milliseconds, Field(ge=0)] = Field(
        default=0.0, description="how much the round-trip time varies"
    )
    price_per_gb: Price = Field(
        default=_FREE, json_schema_extra=_NO_COST, description="of what crosses the link"
    )


class HostKeys(Keys):
    address: Text = Field(default="127.0.0.1", description="where its site's hosts reach it")
    cores: int = Field(default=1, ge=1, description="processor cores for training")
    memory_gb: Annotated[Gigabytes, Field(gt=0)] | None = Field(
        default=None, description="memory; left out: measured"
    )
    gpus: int = Field(default=0, ge=0, description="accelerators")
    price_per_hour: Price = Field(
        default=_FREE, json_schema_extra=_NO_COST, description="of the host: 0.05 or '0.05 USD'"
    )
    spot: YesNo = Field(default=False, description="whether it may be taken away: yes or no")
    tokens_per_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="how quick it trains this job; believed with --declared only"
    )


class SiteKeys(Keys):
    country: Country = Field(description="the jurisdiction, as ISO 3166 code: DE")
    link: LinkKeys = Field(description="the site's one link, to the logbook")
    hosts: dict[str, HostKeys | None] = Field(
        min_length=1, description="machines with fast links among them: name and facts"
    )


class LabKeys(Keys):
    faults: list[Text] = Field(
        default=[], description="plugs that the lab pulls: 'kill tokyo-1 at round 4'"
    )


class FleetKeys(Keys):
    """Where the machines stand, how they are joined, and what they cost."""

    version: Literal[1] = Field(description="of this file format; always the first key")
    home: HomeKeys = Field(description="where controller and logbook stand: {country: DE}")
    currency: Currency = Field(default="USD", description="of all prices")
    sites: dict[str, SiteKeys] = Field(min_length=1, description="each site by its name")
    lab: LabKeys = Field(default_factory=LabKeys, description="for `argosy train --lab` only")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if isinstance(value, dict) and isinstance(value.get("home"), str):
            return value | {"home": {"country": value["home"]}}
        return value


def read_fleet(path: Path) -> Fleet:
    """Raises SpecError naming the file, the line, what was expected and what to do."""
    return parse_fleet(text.read(path), str(path))


def parse_fleet(content: str, where: str = "fleet.yaml") -> Fleet:
    page = document(content, where)
    keys = checked(page, FleetKeys)
    sites = [((("sites", name)), name) for name in keys.sites]
    hosts = [
        (("sites", site, "hosts", name), name)
        for site, site_keys in keys.sites.items()
        for name in site_keys.hosts
    ]
    mistakes = [
        *_misnamed([*sites, *hosts]),
        *repeated(sites),
        *repeated(hosts),
        *_foreign_money(keys),
    ]
    if mistakes:
        raise refuse(page, mistakes)
    fleet = Fleet(
        home=keys.home.country,
        sites=tuple(_site(page, name, site) for name, site in keys.sites.items()),
        links=tuple(_link(name, site.link) for name, site in keys.sites.items()),
        currency=keys.currency,
        faults=tuple(keys.lab.faults),
    )
    mistakes = _not_faults(fleet)
    if mistakes:
        raise refuse(page, mistakes)
    return fleet


def _misnamed(names: list[tuple[Keypath, str]]) -> list[Mistake]:
    mistakes = []
    for path, name in names:
        problem = check_name(name)
        if name.casefold() in _RESERVED:
            problem = f"the name {name!r} is taken by Argosy itself"
        if problem:
            mistakes.append(Mistake(path=path, what=problem))
    return mistakes


def _not_faults(fleet: Fleet) -> list[Mistake]:
    """Sentences that are none of the fault script, or speak of hosts that are not there."""
    mistakes = []
    for index, sentence in enumerate(fleet.faults):
        try:
            faults.targets(faults.parse(sentence), fleet)
        except SpecError as error:
            path = ("lab", "faults", index)
            mistakes.append(Mistake(path=path, what=error.what, hint=error.hint))
    return mistakes


def _foreign_money(keys: FleetKeys) -> list[Mistake]:
    prices: list[tuple[Keypath, Money]] = []
    for name, site in keys.sites.items():
        prices.append((("sites", name, "link", "price_per_gb"), site.link.price_per_gb))
        prices += [
            (("sites", name, "hosts", host, "price_per_hour"), facts.price_per_hour)
            for host, facts in site.hosts.items()
            if facts
        ]
    return [
        Mistake(
            path=path,
            what=f"expected {keys.currency}, the currency of this fleet, got {price.currency}",
            hint=f"one fleet, one currency: convert it, or set currency: {price.currency}",
        )
        for path, price in prices
        if price.currency not in (None, keys.currency)
    ]


def _site(page: Document, name: str, keys: SiteKeys) -> Site:
    hosts = tuple(
        _host(host, facts or HostKeys(), page.place(("sites", name, "hosts", host)))
        for host, facts in keys.hosts.items()
    )
    return Site(name=name, country=keys.country, hosts=hosts)


def _host(name: str, keys: HostKeys, where: str) -> Host:
    return Host(
        name=name,
        address=keys.address,
        cores=keys.cores,
        memory_gb=keys.memory_gb,
        gpus=keys.gpus,
        price_per_hour=keys.price_per_hour.amount,
        spot=keys.spot,
        tokens_per_s=keys.tokens_per_s,
        where=where,
    )


def _link(site: str, keys: LinkKeys) -> Link:
    return Link(
        a=site,
        mbit_per_s=keys.mbit_per_s,
        rtt_ms=keys.rtt_ms,
        jitter_ms=keys.jitter_ms,
        price_per_gb=keys.price_per_gb.amount,
    )
