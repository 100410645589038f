"""The SQL files of `sql/<noun>/<verb>.sql`, read once.

One statement a file; the first lines say its sense and its parameters. Nothing here builds SQL: a
statement is what stands in its file.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

_ROOT = files("taskengine.store") / "sql"


def _read() -> dict[str, str]:
    return {
        f"{noun.name}/{verb.name.removesuffix('.sql')}": verb.read_text("utf-8")
        for noun in sorted(_ROOT.iterdir(), key=lambda entry: entry.name)
        if noun.is_dir()
        for verb in noun.iterdir()
        if verb.name.endswith(".sql")
    }


STATEMENTS: Final = _read()


def sql(name: str) -> str:
    """The statement `<noun>/<verb>`."""
    return STATEMENTS[name]
