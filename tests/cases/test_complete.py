"""Each case has a test, or stands among the exceptions with its reason."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
NUMBERS = """
2 4 5 6 8 9 11 12 14 15 16 17 18 20 21 23 24 26 27 30 31 32 34 35 37 38 39 40 42 43 44 45 46 48 49
50 51 52 53 54 56 57 58 59 60 61 65 66 67 68 69 71 72 73 75 76 77 78 79 80 81 82 83 84 85 87 88 89
90 91 92 93 94 95 97 98 99 100 101 103 104 105 106 107 109 110
"""
_CASE = re.compile(r"test_c(\d+)_")
_ROW = re.compile(r"^\| C(\d+) \|[^|]*\| (.+) \|$", re.MULTILINE)


def found_tests() -> Mapping[int, set[str]]:
    """Case → `file::test` of every test that is named by it and asserts something."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted(FOLDER.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                named := _CASE.match(node.name)
            ):
                found[int(named[1])].add(f"{path.name}::{node.name}")
    return found


def rows() -> Mapping[int, str]:
    """Case → the last column of its row in the README."""
    return {int(n): tests for n, tests in _ROW.findall((FOLDER / "README.md").read_text())}


def test_every_case_has_a_test() -> None:
    numbers = {int(number) for number in NUMBERS.split()}
    assert len(numbers) == 86
    assert numbers - set(found_tests()) == set()
    assert set(rows()) == numbers


def test_the_table_names_exactly_the_tests_that_there_are() -> None:
    named = {n: set(re.findall(r"`([^`]+)`", column)) for n, column in rows().items()}
    assert named == found_tests()
