"""A document against the keys of its kind."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import ValidationError

from argosy.core.errors import SpecError
from argosy.spec.document import Document, Path
from argosy.spec.mistakes import Mistake, found, refuse, show
from argosy.spec.words import VERSION, Keys

K = TypeVar("K", bound=Keys)


def checked(page: Document, kind: type[K]) -> K:
    """Raises SpecError with every mistake that the keys' own types and ranges can tell."""
    _check_version(page)
    try:
        return kind.model_validate(page.data)
    except ValidationError as error:
        raise refuse(page, found(error, kind)) from error


def repeated(names: Iterable[tuple[Path, str]]) -> list[Mistake]:
    """Names that stand for two things. Capitals make no difference: on some disks neither do."""
    seen: dict[str, str] = {}
    mistakes = []
    for path, name in names:
        if name.casefold() in seen:
            mistakes.append(Mistake(path=path, what=f"the name {name!r} is given twice"))
        seen[name.casefold()] = name
    return mistakes


def _check_version(page: Document) -> None:
    if not isinstance(page.data, dict):
        raise SpecError(
            f"expected keys and values, got {show(page.data)}",
            where=page.place(()),
            hint="argosy init writes an example",
        )
    first = next(iter(page.data), None)
    if first != "version":
        given = "version" in page.data
        raise SpecError(
            f"expected `version: {VERSION}` as the first key, got {show(first)}",
            where=page.place(("version",) if given else (str(first),)),
            hint=f"{'move' if given else 'add'} `version: {VERSION}` to the top",
        )
    version = page.data["version"]
    if type(version) is int and version != VERSION:
        raise SpecError(
            f"version: this Argosy reads version {VERSION}, got {version}",
            where=page.place(("version",)),
            hint="a newer Argosy may read it" if version > VERSION else None,
        )
    if type(version) is not int:
        raise SpecError(
            f"version: expected {VERSION}, got {show(version)}", where=page.place(("version",))
        )
