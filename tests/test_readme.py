"""The README's table of the specification names tests that there are, and as many as there are."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).parent
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+\*?)`(?: \((\d+)\))?")


def names_in(path: Path) -> list[str]:
    """The names of a file's tests, or none where there is no such file."""
    body = ast.parse(path.read_text()).body if path.exists() else []
    functions = (n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [function.name for function in functions if function.name.startswith("test_")]


def test_the_table_names_tests_that_there_are_and_counts_them() -> None:
    named = _NAMED.findall((HERE / "README.md").read_text())
    wrong = [
        f"{path}::{pattern}: {number or 1} named, there are {found}"
        for path, pattern, number in named
        if (found := sum(fnmatchcase(name, pattern) for name in names_in(HERE / path)))
        != int(number or 1)
    ]
    assert len(named) > 200
    assert wrong == []
