"""Acceptance by draft position as plain bars, for the live page and the result page."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from app.domain.summary import AcceptanceView, CellView
from app.web import charts, formats
from app.web.charts import Bar


@dataclass(frozen=True)
class AcceptanceChart:
    """Acceptance of one lane by draft position."""

    lane: str
    style: int
    finding: str
    chart: Markup
    rows: tuple[tuple[int, int, float], ...]


def acceptance_charts(cell: CellView, styles: Mapping[str, int]) -> tuple[AcceptanceChart, ...]:
    """Acceptance by position of every lane of the cell that told it."""
    return tuple(
        acceptance_chart(name, view.acceptance, styles[name])
        for name, view in cell.lanes.items()
        if view.acceptance is not None and view.acceptance.drafts
    )


def acceptance_chart(lane: str, view: AcceptanceView, style: int) -> AcceptanceChart:
    """Plain bars on 0–100 %, with the number of drafts beside them."""
    shares = view.rate_per_position or ()
    counts = view.accepted_per_position or ()
    bars = [
        Bar(str(place + 1), share, formats.percent(share)) for place, share in enumerate(shares)
    ]
    rows = tuple(
        (place + 1, kept, share)
        for place, (kept, share) in enumerate(zip(counts, shares, strict=False))
    )
    finding = (
        f"{formats.percent(view.rate)} of drafted tokens accepted, "
        f"{formats.decimal(view.tau)} tokens per step, n = {formats.count(view.drafts)} drafts"
    )
    title = f"Acceptance of {lane} by draft position"
    return AcceptanceChart(
        lane, style, finding, charts.share_bars(bars, style=style, title=title), rows
    )
