"""What the commands' apps and options have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="PATH",
        help="The configuration file; else $TASKENGINE_CONFIG, else ./config.toml.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="So many at the most.")]

MAX_ID = 2**63 - 1
Ids = Annotated[list[int], typer.Argument(min=1, max=MAX_ID, metavar="ID...")]
Id = Annotated[int, typer.Argument(min=1, max=MAX_ID, metavar="ID")]


def new_app(help_: str = "") -> typer.Typer:
    """An app that starts quickly: no rich text in its help, no traceback of its own making."""
    return typer.Typer(
        help=help_ or None,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=bool(help_),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
