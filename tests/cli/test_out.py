"""What is printed: digit for digit, harmless to the terminal, readable with and without one."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

import pytest

from taskengine import errors
from taskengine.cli import out, words
from taskengine.cli.failure import complain, status_of

_EVIL = "<b>\x1b[31mred\x1b[0m\r\n\x9b2J\u202egnp.exe\u2028\x00"


class _Item(NamedTuple):
    name: str
    amount: object


_COLUMNS = [
    out.Column[_Item]("name", lambda each: each.name),
    out.Column[_Item]("amount", lambda each: each.amount, right=True),
]


def test_json_is_the_stored_text_digit_for_digit(capsys: pytest.CaptureFixture[str]) -> None:
    stored = '{"id": 9007199254740993, "amount": 0.1, "price": 1.10, "big": 1' + "0" * 400 + "}"
    out.line({"payload": out.Raw(stored)})
    assert capsys.readouterr().out == '{"payload": ' + stored + "}\n"


def test_json_cannot_steer_the_terminal_and_stays_the_same_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out.line({"text": _EVIL, "raw": out.Raw(json.dumps(_EVIL, ensure_ascii=False))})
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert not words._UNSAFE.search(line.rstrip("\n"))
    assert json.loads(line) == {"text": _EVIL, "raw": _EVIL}


def test_times_are_utc_and_none_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    out.line({"at": datetime(2026, 11, 2, 12, tzinfo=UTC), "none": None, "list": [1, ["a"]]})
    assert capsys.readouterr().out == (
        '{"at": "2026-11-02T12:00:00Z", "none": null, "list": [1, ["a"]]}\n'
    )


def test_a_table_shows_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    out.table(_COLUMNS, [_Item(_EVIL, Decimal("1.10")), _Item("世界", None)])
    title, first, second = capsys.readouterr().out.splitlines()
    assert title.split() == ["name", "amount"]
    assert first.startswith("<b>\\x1b[31mred\\x1b[0m\\r\\n\\x9b2J\\u202egnp.exe\\u2028\\x00  ")
    assert first.endswith("1.10")
    assert second == "世界" + " " * (len(first) - 5) + words.NONE


def test_nothing_to_show_is_a_message_and_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    out.show([], _COLUMNS, _Item._asdict, as_json=False, nothing="no items")
    out.show([], _COLUMNS, _Item._asdict, as_json=True, nothing="no items")
    assert capsys.readouterr() == ("", "taskengine: no items\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, words.NONE),
        (0.83, "0.8 s"),
        (12.4, "12 s"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (356_400, "4 d 3 h"),
    ],
)
def test_spans_of_time_in_words(seconds: float | None, text: str) -> None:
    assert words.span(seconds) == text


_PROGRAM = """
from taskengine.cli import out
out.table([out.Column("name", str), out.Column("id", lambda _: 9007199254740993, right=True)],
          ["a\\x1b[2J" + "b" * 60])
out.put(out.coloured("healthy", 32))
"""


def _on_a_terminal(**env: str) -> str:
    """What the program writes to a terminal of 40 columns."""
    leader, follower = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    more = {"COLUMNS": "40", "TERM": "xterm", **env}
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdout=follower, env=clean | more, close_fds=True
    )
    os.close(follower)
    shown = b""
    try:
        while chunk := os.read(leader, 4096):
            shown += chunk
    except OSError:  # Linux's word for the end
        pass
    finally:
        os.close(leader)
    assert process.wait() == 0
    return shown.decode()


def test_on_a_terminal_a_table_fits_and_nothing_is_cut_off() -> None:
    shown = _on_a_terminal()
    assert "\x1b[1mname" in shown
    assert "\x1b[32mhealthy" in shown
    assert "\x1b[2J" not in shown
    assert "9007199254740993" in shown
    assert shown.count("b") == 61  # with that of \x1b


def test_no_color_means_no_escapes_at_all() -> None:
    assert "\x1b[" not in _on_a_terminal(NO_COLOR="1")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConfigError("x"), 78),
        (errors.MigrationError("x"), 78),
        (errors.WrongDatabase("x"), 78),
        (errors.UnknownJob("x"), 3),
        (errors.UnknownQueue("x"), 3),
        (errors.UnknownStore("x"), 3),
        (errors.ExecutionNotFound(1), 3),
        (errors.ExecutionEmptied(1), 4),
        (errors.InvalidMove("x"), 4),
        (errors.JobDisabled("x"), 4),
        (errors.PayloadError("$"), 2),
        (errors.KeyTooLong("x" * 256), 2),
        (errors.InvalidSetting("x"), 2),
        (errors.ScheduleError("x"), 2),
        (errors.StoreRequired("x"), 2),
        (errors.StoreUnavailable("x"), 5),
        (errors.BrokerUnavailable("x"), 5),
        (errors.StoreBusy("x"), 75),
        (errors.ServiceFailed("x"), 1),
    ],
)
def test_every_error_has_its_exit_status(error: Exception, status: int) -> None:
    assert status_of(error) == status


def test_a_message_hides_secrets_and_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    complain(errors.StoreUnavailable("postgresql://me:hunter2@host/db: \x1b[31mrefused"))
    assert capsys.readouterr().err == (
        "taskengine: postgresql://me:***@host/db: \\x1b[31mrefused\n"
    )
