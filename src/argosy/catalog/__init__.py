"""Facts about the world, from data files that name their sources."""

from argosy.catalog.countries import (
    ANYWHERE,
    BLOCS,
    NAMES,
    Bloc,
    check_country,
    country_name,
    expand,
    place_name,
)

__all__ = [
    "ANYWHERE",
    "BLOCS",
    "NAMES",
    "Bloc",
    "check_country",
    "country_name",
    "expand",
    "place_name",
]
