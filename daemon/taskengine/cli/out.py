"""What commands print: tables for people, one JSON object a line for machines. Data to stdout,
messages to stderr.

Guarantees: JSON is the stored text digit for digit; text of users cannot steer the terminal, in
tables or in JSON; on a terminal tables fit its width and obey NO_COLOR, elsewhere they are plain
aligned columns.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from taskengine.cli.words import NONE, clean, instant, json_safe

T = TypeVar("T")


class Raw(NamedTuple):
    """JSON text that is printed as it is stored."""

    text: str


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table: its title, what stands in it, and whether to align it to the right."""

    title: str
    cell: Callable[[T], object]
    right: bool = False


def show(
    items: Sequence[T],
    columns: Sequence[Column[T]],
    shape: Callable[[T], Mapping[str, object]],
    *,
    as_json: bool,
    nothing: str,
) -> None:
    """The items as a table, or each as an object; `nothing` says on stderr that there are none."""
    if as_json:
        for item in items:
            line(shape(item))
    elif not items:
        note(nothing)
    else:
        table(columns, items)


def line(value: Mapping[str, object]) -> None:
    """One JSON object on one line."""
    put(json_safe(_json(value)))


def put(text: str) -> None:
    """A line of data, made of text that is fit to print."""
    print(text)  # noqa: T201


def note(text: str) -> None:
    """A message."""
    print(f"taskengine: {clean(text)}", file=sys.stderr)  # noqa: T201


def table(columns: Sequence[Column[T]], items: Iterable[T]) -> None:
    """Aligned columns under their titles."""
    rows = [[cell(column.cell(item)) for column in columns] for item in items]
    if sys.stdout.isatty():
        _for_terminal(columns, rows)
    else:
        _plain(columns, rows)


def coloured(text: str, colour: int) -> str:
    """The text in an ANSI colour (31 red, 32 green, 33 yellow) where that is wanted."""
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[{colour}m{text}\x1b[0m" if wanted else text


def cell(value: object) -> str:
    """A value as it stands in a table."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return instant(value) if isinstance(value, datetime) else clean(str(value))


def _plain(columns: Sequence[Column[Any]], rows: Sequence[Sequence[str]]) -> None:
    lines = [[column.title for column in columns], *rows]
    widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
    for cells in lines:
        padded = [
            " " * (width - _width(cell)) + cell
            if column.right
            else cell + " " * (width - _width(cell))
            for column, width, cell in zip(columns, widths, cells, strict=True)
        ]
        put("  ".join(padded).rstrip())


def _width(text: str) -> int:
    """How many places a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(unicodedata.combining(each) > 0 for each in text)


def _for_terminal(columns: Sequence[Column[Any]], rows: Sequence[Sequence[str]]) -> None:
    """Cells are folded where the terminal is narrow; nothing is cut off."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    plain = bool(os.environ.get("NO_COLOR"))
    shown = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="" if plain else "bold"
    )
    for column in columns:
        shown.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for cells in rows:
        shown.add_row(*map(Text, cells))
    Console(no_color=plain, highlight=False).print(shown)


def _json(value: object) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Mapping):
        items = (f"{json.dumps(str(key))}: {_json(each)}" for key, each in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, datetime):
        return json.dumps(value.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    return json.dumps(value, ensure_ascii=False, default=str)
