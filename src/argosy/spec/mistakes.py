"""What is wrong with a document, said so that it can be put right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from argosy.core.errors import SpecError
from argosy.spec.document import Document, Path

_SHOWN = 5

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "yes or no",
    "list_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "string_too_short": "text",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    path: Path
    what: str
    hint: str | None = None
    of_section: bool = False  # `what` names the key itself, so the sentence begins one level up


def wrong(what: str, hint: str | None = None) -> PydanticCustomError:
    """To raise inside a pydantic validator: the whole sentence after the path is `what`."""
    return PydanticCustomError("argosy", "{what}", {"what": what, "hint": hint})


def expected(what: str, got: object, hint: str | None = None) -> PydanticCustomError:
    return wrong(f"expected {what}, got {show(got)}", hint)


def show(value: object) -> str:
    """A value as the file would have it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case dict():
            return "keys and values"
        case list():
            return "a list"
        case str() if len(value) > 60:
            return repr(value[:57] + "...")
        case _:
            return repr(value)


def suggest(word: str, known: Sequence[str]) -> str:
    """ ", did you mean 'sources'?" or nothing."""
    folded = {other.casefold(): other for other in known}
    close = get_close_matches(word.casefold(), folded, n=1)
    return f", did you mean {folded[close[0]]!r}?" if close else ""


def found(error: ValidationError, model: type[BaseModel]) -> list[Mistake]:
    """The mistakes that pydantic saw, in our words. A misspelt key is not also a missing one."""
    details = error.errors(include_url=False)
    misspelt: set[Path] = set()
    mistakes = []
    for detail in details:
        if detail["type"] == "extra_forbidden":
            path = _path(detail)
            known = _keys_at(model, path[:-1])
            key = str(path[-1])
            advice = suggest(key, known)
            misspelt |= {(*path[:-1], other) for other in known if f"{other!r}?" in advice}
            hint = None if advice else f"known here: {', '.join(known)}"
            what = f"unknown key {key!r}{advice}"
            mistakes.append(Mistake(path=path, what=what, hint=hint, of_section=True))
    for detail in details:
        path = _path(detail)
        if detail["type"] == "missing" and path not in misspelt:
            what = f"the key {str(path[-1])!r} is missing"
            hint = _description(model, path)
            mistakes.append(Mistake(path=path, what=what, hint=hint, of_section=True))
        elif detail["type"] not in ("missing", "extra_forbidden"):
            mistakes.append(_translated(detail, path, model))
    return mistakes


def refuse(document: Document, mistakes: Sequence[Mistake]) -> SpecError:
    """One error: the first mistake of the file as headline, the others below."""
    lines = [_line(document, mistake) for mistake in mistakes]
    order = sorted(range(len(mistakes)), key=lambda index: lines[index])
    first, *others = [mistakes[index] for index in order]
    also = [f"also {document.place(m.path)}: {_sentence(document, m)}" for m in others[:_SHOWN]]
    if len(others) > _SHOWN:
        also.append(f"and {len(others) - _SHOWN} more")
    return SpecError(
        _sentence(document, first),
        where=document.place(first.path),
        hint="\n  ".join([*([first.hint] if first.hint else []), *also]) or None,
    )


def _line(document: Document, mistake: Mistake) -> int:
    return int(document.place(mistake.path).rpartition(":")[2])


def _sentence(document: Document, mistake: Mistake) -> str:
    path = mistake.path[:-1] if mistake.of_section else mistake.path
    name = _dotted(document.data, path)
    return f"{name}: {mistake.what}" if name else mistake.what


def _dotted(data: object, path: Path) -> str:
    """sources[german].country: an entry of a list by its name, or else counted from one."""
    text = ""
    for step in path:
        inner: object = None
        if isinstance(step, int):
            inner = data[step] if isinstance(data, list) and step < len(data) else None
            name = inner.get("name") if isinstance(inner, dict) else None
            text += f"[{name if isinstance(name, str) else step + 1}]"
        else:
            inner = data.get(step) if isinstance(data, dict) else None
            text += f".{step}" if text else step
        data = inner
    return text


def _path(detail: ErrorDetails) -> Path:
    return tuple(step for step in detail["loc"] if step != "[key]")


def _translated(detail: ErrorDetails, path: Path, model: type[BaseModel]) -> Mistake:
    context: Mapping[str, Any] = detail.get("ctx", {})
    hint = _description(model, path)
    got = detail["input"]
    match detail["type"]:
        case "argosy":
            return Mistake(path=path, what=context["what"], hint=context["hint"] or hint)
        case "literal_error":
            choices = str(context["expected"])
            known = [word.strip("'") for word in choices.replace(" or ", ", ").split(", ")]
            advice = suggest(got, known) if isinstance(got, str) else ""
            what = f"expected {choices}, got {show(got)}{advice}"
        case "too_short" | "too_long":
            bound = context.get("min_length", context.get("max_length"))
            side = "at least" if detail["type"] == "too_short" else "at most"
            entries = "entry" if bound == 1 else "entries"
            what = f"expected {side} {bound} {entries}, got {context['actual_length']}"
        case kind if kind in _EXPECTED:
            what = f"expected {_EXPECTED[kind].format(**context)}, got {show(got)}"
        case _:
            what = detail["msg"]
    return Mistake(path=path, what=what, hint=hint)


def _description(model: type[BaseModel], path: Path) -> str | None:
    """What the nearest key on the path is for, from the model that checks it."""
    annotation: Any = model
    text = None
    for step in path:
        info = _section(annotation).get(step)
        if info is not None:
            text = f"{step} = {info.description}"
        annotation = _inside(annotation, step)
    return text


def _keys_at(model: type[BaseModel], path: Path) -> list[str]:
    annotation: Any = model
    for step in path:
        annotation = _inside(annotation, step)
    return [str(key) for key in _section(annotation)]


def _inside(annotation: Any, step: str | int) -> Any:
    fields = _section(annotation)
    if step in fields:
        return fields[step].annotation
    inner = [get_args(c)[-1] for c in _choices(annotation) if get_origin(c) in (list, dict)]
    return inner[0] if inner else None


def _section(annotation: Any) -> dict[str | int, FieldInfo]:
    """The keys of a section; of anything else none."""
    return {
        info.alias or name: info
        for choice in _choices(annotation)
        if isinstance(choice, type) and issubclass(choice, BaseModel)
        for name, info in choice.model_fields.items()
    }


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of an annotation, without Annotated."""
    if hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) in (Union, UnionType):
        return tuple(choice for arm in get_args(annotation) for choice in _choices(arm))
    return (annotation,)
