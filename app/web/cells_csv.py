"""The cells of a result as CSV for spreadsheets: raw numbers, units in the headings, and no cell
that a spreadsheet would run as a formula."""

import csv
import io
from collections.abc import Iterator

from app.domain.result import Result
from app.domain.summary import CellView, LaneCell

EDITION = 1  # raise it when the columns change: it is part of the ETag

Value = str | int | float | None

COLUMNS = (
    "provenance",
    "plays",
    "workload",
    "context_tokens",
    "concurrency",
    "lane",
    "tokens_per_second",
    "speedup",
    "speedup_low",
    "speedup_high",
    "verdict",
    "ttft_p50_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "drafts",
    "drafted",
    "accepted",
    "acceptance_rate",
    "tau",
    "chars_per_second",
    "power_w",
    "tokens_per_joule",
    "heats",
    "flags",
)


def render(result: Result) -> str:
    """One heading and one row per cell and lane."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in _rows(result):
        writer.writerow([guard(value) for value in row])
    return out.getvalue()


def guard(value: Value) -> Value:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return f"'{value}"
    return value


def _rows(result: Result) -> Iterator[list[Value]]:
    origin = result.provenance
    for cell in result.cells:
        for name, lane in cell.lanes.items():
            yield [origin.kind, origin.plays, *_place(cell, name), *_speed(lane), *_detail(lane)]


def _place(cell: CellView, lane: str) -> list[Value]:
    return [cell.workload, cell.context, cell.concurrency, lane]


def _speed(lane: LaneCell) -> list[Value]:
    judged, ttft = lane.speedup, lane.ttft
    return [
        lane.tokens_per_second,
        *(
            [None] * 4
            if judged is None
            else [judged.value, judged.low, judged.high, judged.verdict.value]
        ),
        *([None] * 3 if ttft is None else [ttft.p50, ttft.p95, ttft.p99]),
    ]


def _detail(lane: LaneCell) -> list[Value]:
    counts = lane.acceptance
    return [
        *(
            [None] * 5
            if counts is None
            else [counts.drafts, counts.drafted, counts.accepted, counts.rate, counts.tau]
        ),
        lane.chars_per_second,
        lane.power_w,
        lane.tokens_per_joule,
        len(lane.heats),
        " ".join(lane.flags),
    ]
