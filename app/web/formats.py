"""How numbers are written, in one place: digits, units, dates. Knows no page and no store.

static/js/format.js writes the same numbers the same way; tests/browser holds them equal.
"""

import math
from datetime import UTC, datetime

from markupsafe import Markup

NOTHING = "–"
"""What stands where a number is not known: an en dash."""
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def rate(value: float | None) -> str:
    """Tokens per second with the digits that mean something: 1,284 · 84.2 · 8.43."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def ratio(value: float | None) -> str:
    """A speedup: 1.83×."""
    return NOTHING if value is None else f"{value:.2f}×"


def interval(low: float | None, high: float | None) -> str:
    """Bounds of a speedup: 1.79–1.87; empty without bounds."""
    return "" if low is None or high is None else f"{low:.2f}–{high:.2f}"


def percent(share: float | None) -> str:
    """A share as whole percent: 71%."""
    return NOTHING if share is None else f"{share * 100:.0f}%"


def decimal(value: float | None, digits: int = 2) -> str:
    """A plain number with fixed digits."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """A whole number: 8,192."""
    return NOTHING if value is None else f"{value:,}"


def duration(seconds: float | None) -> str:
    """A span for people: 12 s · 3 min 05 s · 1 h 02 min."""
    if seconds is None:
        return NOTHING
    whole = max(0, int(seconds))
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S:02d} s"
    return f"{whole // HOUR_S} h {whole % HOUR_S // MINUTE_S:02d} min"


def span(seconds: float | None) -> str:
    """A span that has ended: a tenth of a second below ten, else like duration."""
    if seconds is None or seconds >= 10:
        return duration(seconds)
    return f"{seconds:.1f} s"


def unbroken(text: str) -> str:
    """The same sentence, whose ranges (1.79–1.87) never break across lines."""
    return text.replace("–", "\u2060–\u2060")


def latency(seconds: float | None) -> str:
    """A short span: 113 ms · 1.03 s."""
    if seconds is None:
        return NOTHING
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def date(moment: datetime | None) -> str:
    """A moment in UTC for people: 21 Nov 2026, 09:13 UTC."""
    return NOTHING if moment is None else f"{utc(moment):%-d %b %Y, %H:%M} UTC"


def when(moment: datetime | None) -> Markup:
    """The same as a <time> element that machines read too."""
    if moment is None:
        return Markup(NOTHING)
    return Markup('<time datetime="{}">{}</time>').format(iso(moment), date(moment))


def iso(moment: datetime) -> str:
    """RFC 3339 in UTC."""
    return f"{utc(moment):%Y-%m-%dT%H:%M:%SZ}"


def utc(moment: datetime) -> datetime:
    """The moment in UTC; a naive one is taken to be UTC, as the store writes it."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def plural(number: int, noun: str) -> str:
    """1 heat · 3 heats."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def context(tokens: int) -> str:
    """Context length of a cell: 0 · 8K · 1,500."""
    return f"{tokens // 1024}K" if tokens and tokens % 1024 == 0 else f"{tokens:,}"


def cell(workload: str, tokens: int, streams: int) -> str:
    """A cell in few words: code · 32K context · 8 streams."""
    return f"{workload} · {context(tokens)} context · {plural(streams, 'stream')}"


FILTERS = {
    "rate": rate,
    "ratio": ratio,
    "percent": percent,
    "decimal": decimal,
    "count": count,
    "duration": duration,
    "latency": latency,
    "span": span,
    "unbroken": unbroken,
    "date": date,
    "when": when,
    "iso": iso,
}
