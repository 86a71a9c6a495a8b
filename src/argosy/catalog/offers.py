"""Machines on offer: what hosts with accelerators cost where, and of which day that price is."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from io import StringIO

from argosy.catalog.accelerators import accelerator
from argosy.core.errors import SpecError

OLD_DAYS = 30  # a price that is older is said to be
COLUMNS = (
    "cloud", "name", "region", "zones", "accelerator", "count", "cores", "memory_gb", "hour",
    "spot_hour", "currency", "as_of", "source",
)  # fmt: skip
NEEDED = ("name", "accelerator", "count", "hour", "as_of")


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A host to rent, or one's own. Money is per hour of the whole host."""

    cloud: str  # "own" where nobody else is named
    name: str
    region: str
    zones: tuple[str, ...]  # (): not known
    accelerator: str  # a name of the accelerators' table
    count: int
    cores: float | None
    memory_gb: float | None
    hour: float
    spot_hour: float | None
    currency: str
    as_of: date
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two offers the same one at another price."""
        return self.cloud, self.name, self.region

    def age_days(self, today: date) -> int:
        return (today - self.as_of).days


def read_offers(text: str, where: str) -> tuple[Offer, ...]:
    """A table of offers. Raises SpecError that names the line.

    Needed are name, accelerator, count, hour and as_of; the other columns may be left out.
    """
    rows = csv.DictReader(text.splitlines())
    given = tuple(rows.fieldnames or ())
    unknown = [name for name in given if name not in COLUMNS]
    missing = [name for name in NEEDED if name not in given]
    if unknown or missing:
        wrong = f"no column {missing[0]!r}" if missing else f"column {unknown[0]!r} is not known"
        raise SpecError(wrong, where=f"{where}:1", hint=f"columns are {', '.join(COLUMNS)}")
    return tuple(_offer(row, f"{where}:{line}") for line, row in enumerate(rows, start=2))


def joined(offers: Iterable[Offer], own: Iterable[Offer]) -> tuple[Offer, ...]:
    """One table: an own offer takes the place of the same one at another price."""
    table = {offer.key: offer for offer in offers} | {offer.key: offer for offer in own}
    return tuple(table[key] for key in sorted(table))


def as_text(offers: Iterable[Offer]) -> str:
    """The table that `read_offers` reads."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for offer in offers:
        cells = {name: getattr(offer, name) for name in COLUMNS}
        cells["zones"] = " ".join(offer.zones)
        writer.writerow("" if cell is None else cell for cell in cells.values())
    return text.getvalue()


def staleness(offers: Iterable[Offer], today: date) -> str:
    """One sentence where prices are older than 30 days; "" where none is."""
    old = [offer for offer in offers if offer.age_days(today) > OLD_DAYS]
    if not old:
        return ""
    oldest = min(offer.as_of for offer in old)
    one = len(old) == 1
    return (
        f"{len(old)} {'price is' if one else 'prices are'} older than {OLD_DAYS} days"
        f" ({'of' if one else 'the oldest of'} {oldest}, {(today - oldest).days} days):"
        " argosy catalog update FILE brings newer ones."
    )


def _offer(row: Mapping[str, str | None], where: str) -> Offer:
    cells = {name: (row.get(name) or "").strip() for name in COLUMNS}
    try:
        card = accelerator(cells["accelerator"]).name
    except ValueError as error:
        raise SpecError(f"accelerator: {error}", where=where) from error
    try:
        day = date.fromisoformat(cells["as_of"])
    except ValueError:
        raise SpecError(
            f"as_of: expected a day as 2026-11-30, got {cells['as_of']!r}", where=where
        ) from None
    count = _number(cells, "count", where)
    hour = _number(cells, "hour", where)
    if not count or count != int(count) or hour is None:
        raise SpecError("expected a whole count of accelerators and a price an hour", where=where)
    return Offer(
        cloud=cells["cloud"] or "own",
        name=cells["name"],
        region=cells["region"],
        zones=tuple(cells["zones"].split()),
        accelerator=card,
        count=int(count),
        cores=_number(cells, "cores", where),
        memory_gb=_number(cells, "memory_gb", where),
        hour=hour,
        spot_hour=_number(cells, "spot_hour", where),
        currency=cells["currency"] or "USD",
        as_of=day,
        source=cells["source"] or where.rsplit(":", 1)[0],
    )


def _number(cells: Mapping[str, str], name: str, where: str) -> float | None:
    if not cells[name]:
        return None
    try:
        number = float(cells[name])
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise SpecError(
            f"{name}: expected a number that is not negative, got {cells[name]!r}", where=where
        )
    return number


OFFERS: tuple[Offer, ...] = read_offers(
    files("argosy.catalog").joinpath("offers.csv").read_text(encoding="utf-8"), "offers.csv"
)
