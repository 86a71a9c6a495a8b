"""How amounts are written for people, the same everywhere. Pure."""

import math


def money(amount: float, currency: str = "") -> str:
    """12.345 -> "12.35", 0.00143 -> "0.0014": cents, or two significant digits when it is less."""
    shown = abs(float(f"{amount:.1e}"))  # 0.0999 is shown as 0.10
    places = 1 - math.floor(math.log10(shown)) if 0 < shown < 1 else 2
    text = f"{amount:,.{places}f}" if amount else "0"
    return f"{text} {currency}".strip()
