"""Several things at once; when one fails, its own error and not a group of them."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from argosy.core.errors import UserError


async def together(*work: Coroutine[Any, Any, object]) -> None:
    """All of them; the first that fails ends the others."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for each in work:
                tasks.create_task(each)
    except* UserError as wrong:
        raise first(wrong) from None


def first(wrong: BaseExceptionGroup[UserError]) -> UserError:
    """What went wrong first, out of however many groups it is wrapped in."""
    inner = wrong.exceptions[0]
    return first(inner) if isinstance(inner, BaseExceptionGroup) else inner
