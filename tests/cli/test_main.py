"""The way to a command: quick help, usage errors, exit statuses, and nothing like a traceback."""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys

import pytest

from taskengine.cli.commands import COMMANDS
from taskengine.cli.main import config_last
from tests.cli.conftest import Cli, Shell

_HEAVY = ("typer", "rich", "pydantic", "asyncpg", "redis", "asyncio")


def test_the_overview_names_every_command_and_the_exit_statuses(bare: Cli) -> None:
    result = bare.now("--help")
    assert result.status == 0
    assert all(f"\n  {name}" in result.out for name in COMMANDS)
    assert "78 configuration" in result.out


def test_help_of_a_command_is_its_own(bare: Cli) -> None:
    assert bare.now("help", "status") == bare.now("status", "--help")
    assert bare.now("help", "nonsense") == bare.now("--help")


def test_without_a_command_the_overview_is_a_usage_error(bare: Cli) -> None:
    result = bare.now()
    assert (result.status, result.out) == (2, "")
    assert "Usage:" in result.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_verbs_that_the_overview_promises(bare: Cli, name: str) -> None:
    result = bare.now(name, "--help")
    assert result.status == 0
    verbs = [verb for verb in COMMANDS[name].verbs.split("|") if verb]
    app = importlib.import_module(f"taskengine.cli.{COMMANDS[name].module}").app
    if verbs:
        assert [each.name or each.callback.__name__ for each in app.registered_commands] == verbs
    for verb in verbs:
        assert bare.now(name, verb, "--help").status == 0


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from taskengine.__main__ import main; sys.argv = ['taskengine', '--help'];"
        f"main(); print([m for m in {_HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr.decode().strip() == "[]"


def test_help_takes_less_than_200_ms(shell: Shell) -> None:
    """Of the processor: how long others let it wait is not its own fault."""
    code = (
        "import resource, subprocess, sys;"
        "subprocess.run([sys.executable, '-m', 'taskengine', '--help'], stdout=subprocess.DEVNULL);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    )
    env = shell.environ({})
    run = [sys.executable, "-c", code]
    seconds = [float(subprocess.check_output(run, env=env)) for _ in range(10)]
    assert statistics.median(seconds) < 0.2


def test_an_unknown_command_is_a_usage_error_with_the_nearest(bare: Cli) -> None:
    result = bare.now("exections", "list")
    assert (result.status, result.out) == (2, "")
    assert result.err == "taskengine: no command 'exections', did you mean 'executions'?\n"


@pytest.mark.parametrize(
    "args",
    [
        ("executions",),
        ("executions", "lst"),
        ("executions", "list", "--no-such-option"),
        ("executions", "list", "--state", "dead"),
        ("executions", "show", "0"),
        ("executions", "show", "9223372036854775808"),
        ("executions", "redrive"),
        ("executions", "redrive", "1", "--failed"),
        ("executions", "redrive", "1", "--job", "x"),
        ("queues", "pause", "high"),
        ("dispatch",),
        ("dispatch", "x", "--payload", "[1]"),
        ("dispatch", "x", "--payload", "{"),
        ("dispatch", "x", "--payload", "@no-such-file"),
        ("dispatch", "x", "--delay", "soon"),
        ("dispatch", "x", "--delay", "-1"),
        ("dispatch", "x", "--run-at", "tomorrow"),
        ("dispatch", "x", "--run-at", "2026-11-30T22:00:00"),
        ("dispatch", "x", "--run-at", "2026-11-30T22:00:00Z", "--delay", "5"),
        ("dispatch", "x", "--store", "1", "--all-stores"),
        ("jobs", "set", "x", "timeout"),
        ("jobs", "set", "x", "timeout=1", "timeout=2"),
        ("stores", "add", "no good", "--name", "x"),
        ("stores", "add", "1", "--name", " "),
        ("stores", "add", "1", "--name", "x", "--time-zone", "Europe/Berln"),
        ("stores", "add", "1", "--name", "x", "--dsn-from-env", "NO_SUCH_VARIABLE"),
        ("webhooks", "reprocess", "--limit", "0"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_a_usage_error(cli: Cli, args: tuple[str, ...]) -> None:
    result = cli.now(*args)
    assert (result.status, result.out) == (2, "")
    assert result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--config", "a", "status"], ["status", "--config", "a"]),
        (["-c", "a", "executions", "list"], ["executions", "list", "-c", "a"]),
        (["--config=a", "status", "--json"], ["status", "--json", "--config=a"]),
        (["-c", "a", "jobs", "set", "--", "x"], ["jobs", "set", "-c", "a", "--", "x"]),
        (["status", "--config", "a"], ["status", "--config", "a"]),
        (["--config"], ["--config"]),
    ],
)
def test_the_configuration_may_stand_before_the_command(
    given: list[str], expected: list[str]
) -> None:
    assert config_last(given) == expected


def test_the_version_is_told_without_any_store(shell: Shell) -> None:
    for args in (("--version",), ("version",)):
        result = shell(*args)
        assert result.status == 0
        assert result.out.startswith("taskengine 0.")
    assert shell("version", "--json").object.keys() == {"taskengine", "python"}


def test_postgres_away_is_unreachable_in_one_line(shell: Shell) -> None:
    away = {"TASKENGINE_POSTGRES__DSN": "postgresql://me:hunter2@127.0.0.1:1/nowhere"}
    for args in (("status",), ("executions", "list"), ("migrate", "status"), ("dispatch", "x")):
        result = shell(*args, env=away)
        assert (result.status, result.out) == (5, "")
        assert len(result.err.splitlines()) == 1
        assert "hunter2" not in result.err


def test_a_bad_configuration_is_78_and_names_the_key(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text("[workers]\nslot = 3\n")
    result = shell("status")
    assert (result.status, result.out) == (78, "")
    assert "workers.slot: unknown key, did you mean 'slots'?" in result.err
    assert "Traceback" not in result.err


def test_a_reader_that_has_enough_is_no_error(shell: Shell) -> None:
    line = f"{sys.executable} -m taskengine config show --json | head -n 1"
    done = subprocess.run(
        line,
        check=False,
        shell=True,
        capture_output=True,
        cwd=shell.folder,
        env=shell.environ({}),
        timeout=60,
    )
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""
