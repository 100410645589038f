"""Which configuration counts: the file asked for, the environment, the folder's own servers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from taskengine.cli import dev_config
from taskengine.cli.session import load
from taskengine.config import Config
from taskengine.embedded.processes import start_ticks
from taskengine.errors import ConfigError
from taskengine.lifecycle.parts import Parts
from tests.cli.conftest import Cli, Shell, environment

_DSN, _URL = "postgresql:///own?host=/run/x", "unix:///run/x/valkey.sock"


@pytest.fixture
def running(alone: Path) -> Path:
    """The folder's private servers run; their owner is this process."""
    folder = alone / ".taskengine"
    folder.mkdir()
    told = {
        "dsn": _DSN,
        "redis_url": _URL,
        "pid": os.getpid(),
        "started": start_ticks(os.getpid()),
    }
    (folder / "connection.json").write_text(json.dumps(told))
    return alone


def _stores(explicit: Path | None = None) -> tuple[str | None, str]:
    config = load(explicit).config
    dsn = config.postgres.dsn
    return dsn.get_secret_value() if dsn else None, config.redis.url.get_secret_value()


def test_without_anything_the_defaults_count(alone: Path) -> None:
    loaded = load(None)
    assert (loaded.path, loaded.servers) == (None, None)
    assert loaded.config == Config()


def test_the_folders_file_counts_and_a_named_one_more(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("config.toml", "named.toml", "asked.toml"):
        (alone / name).write_text(f'[engine]\nname = "{name}"\n')
    assert load(None).config.engine.name == "config.toml"
    monkeypatch.setenv("TASKENGINE_CONFIG", str(alone / "named.toml"))
    assert load(None).config.engine.name == "named.toml"
    assert load(alone / "asked.toml").config.engine.name == "asked.toml"
    with pytest.raises(ConfigError, match="no such file"):
        load(alone / "missing.toml")


def test_running_private_servers_are_used_even_beside_a_file(running: Path) -> None:
    (running / "config.toml").write_text('[postgres]\ndsn = "postgresql://elsewhere/x"\n')
    assert _stores() == (_DSN, _URL)


def test_a_named_file_is_told_otherwise(running: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (running / "asked.toml").write_text('[postgres]\ndsn = "postgresql://elsewhere/x"\n')
    assert _stores(running / "asked.toml") == (
        "postgresql://elsewhere/x",
        "redis://127.0.0.1:6379/0",
    )
    monkeypatch.setenv("TASKENGINE_CONFIG", "asked.toml")
    assert _stores()[0] == "postgresql://elsewhere/x"


def test_a_dsn_in_the_environment_or_a_credential_is_told_otherwise(
    running: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_REDIS__URL", "redis://elsewhere/1")
    assert _stores() == (_DSN, "redis://elsewhere/1")
    monkeypatch.setenv("taskengine_postgres__dsn", "postgresql://elsewhere/x")
    assert _stores() == ("postgresql://elsewhere/x", "redis://elsewhere/1")
    monkeypatch.delenv("taskengine_postgres__dsn")
    credentials = running / "credentials"
    credentials.mkdir()
    (credentials / "postgres_dsn").write_text("postgresql://secret/x\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    assert _stores()[0] == "postgresql://secret/x"


def test_servers_whose_owner_is_gone_are_not_used(running: Path) -> None:
    file = running / ".taskengine" / "connection.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"started": 1}))
    assert load(None).servers is None


def test_beside_a_running_dev_its_examples_are_known(running: Path) -> None:
    assert (
        load(None).config.jobs.modules == ()
    )  # its servers run, `taskengine dev` shows nothing yet
    key = dev_config.webhook_key(running / ".taskengine")
    (running / "config.toml").write_text(
        '[jobs]\nmodules = ["shop.jobs"]\n'
        '[webhooks.sources.mine]\nscheme = "github"\nkeys = ["k"]\njob = "x"\n'
    )
    config = load(None).config
    assert config.jobs.modules == ("shop.jobs", dev_config.EXAMPLES)
    assert set(config.webhooks.sources) == {"mine", dev_config.SOURCE}
    source = config.webhooks.sources[dev_config.SOURCE]
    assert [each.get_secret_value() for each in source.keys] == [key]
    assert config.web == Config().web
    (running / "config.toml").write_text('[engine]\nqueues = ["only"]\n')
    assert load(None).config.jobs.modules == ()
    assert load(running / "config.toml").config.webhooks.sources == {}


def test_where_dev_does_not_run_an_error_says_so(
    running: Path, bare: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (running / ".taskengine" / "connection.json").unlink()
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "1")
    result = bare.now("executions", "list")
    assert (result.status, result.out) == (5, "")
    assert "`taskengine dev` is not running here, nor is its Postgres in" in result.err
    monkeypatch.setenv("TASKENGINE_POSTGRES__DSN", "postgresql://127.0.0.1:1/x")
    assert "taskengine dev" not in bare.now("executions", "list").err


def test_config_show_says_where_each_value_is_from_and_hides_secrets(
    running: Path, bare: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (running / "config.toml").write_text(
        '[redis]\nurl = "redis://me:hunter2@cache:6380/0"\n'
        '[webhooks.sources.everee]\nscheme = "everee"\nkeys = ["s3cret-a", "s3cret-b"]\njob = "x"\n'
    )
    monkeypatch.setenv("TASKENGINE_WORKERS__SLOTS", "7")
    shown = {each["key"]: each for each in bare.now("config", "show", "--json").objects}
    assert all(each.keys() == {"key", "value", "source"} for each in shown.values())
    assert shown["workers.slots"] == {
        "key": "workers.slots",
        "value": 7,
        "source": "environment variable TASKENGINE_WORKERS__SLOTS",
    }
    assert shown["workers.threads"]["source"] == "default"
    assert shown["postgres.dsn"]["value"] == "postgresql:///own?…"
    assert shown["postgres.dsn"]["source"] == f"`taskengine dev` running in {running}"
    assert shown["webhooks.sources.everee.keys"]["value"] == ["***", "***"]
    table = bare.now("config", "show", "--config", "config.toml")
    assert "redis://me@cache:6380/0" in table.out
    assert "hunter2" not in table.out
    assert "s3cret" not in table.out


async def test_a_folder_with_running_servers_needs_no_configuration(
    parts: Parts, config: Config, shell: Shell
) -> None:
    """Seen by a real process: only schema and prefix, which are the test's, are said."""
    told = environment(config)
    dsn, url = told.pop("TASKENGINE_POSTGRES__DSN"), told.pop("TASKENGINE_REDIS__URL")
    (shell.folder / ".taskengine").mkdir()
    (shell.folder / ".taskengine" / "connection.json").write_text(
        json.dumps(
            {
                "dsn": dsn,
                "redis_url": url,
                "pid": os.getpid(),
                "started": start_ticks(os.getpid()),
            }
        )
    )
    result = shell("stores", "add", "0123", "--name", "First", "--json", env=told)
    assert (result.status, result.object) == (0, {"store": "0123", "answer": "added"})
