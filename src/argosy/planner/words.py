"""Numbers as a person reads them in a reason."""


def seconds(value: float) -> str:
    if value < 0.9995:
        return f"{value * 1000:.3g} ms"
    if value < 120:
        return f"{value:.3g} s"
    if value < 7200:
        return f"{value / 60:.3g} min"
    return f"{value / 3600:,.1f} h"


def size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def listed(names: tuple[str, ...]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))
