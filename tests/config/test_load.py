"""Where values come from, in which order, and what a SIGHUP may change."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from taskengine.config import Config, Workers, find_config


def write(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text)
    return file


def test_without_a_file_all_is_default() -> None:
    assert Config.load(None, {}) == Config()


def test_overrides_win_over_environment_over_credentials_over_file(tmp_path: Path) -> None:
    file = write(
        tmp_path, '[redis]\nurl = "redis://file"\nprefix = "file"\ntimeout = 1\nbreaker = 2\n'
    )
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "redis_url").write_text("redis://:secret@credential\n")
    (secrets / "redis_prefix").write_text("credential")
    (secrets / "redis_timeout").write_text("3")
    environ = {
        "CREDENTIALS_DIRECTORY": str(secrets),
        "TASKENGINE_REDIS__PREFIX": "environment",
        "taskengine_redis__timeout": "4",
    }
    redis = Config.load(file, environ, {"redis": {"timeout": 5}}).redis
    assert redis.url.get_secret_value() == "redis://:secret@credential"
    assert (redis.prefix, redis.timeout, redis.breaker) == ("environment", 5.0, 2.0)


def test_credentials_hold_webhook_keys_one_a_line(tmp_path: Path) -> None:
    file = write(tmp_path, '[webhooks.sources.everee]\nscheme = "everee"\njob = "handle"\n')
    (tmp_path / "webhook_everee_keys").write_text("first,key\n\nsecond\n")
    source = Config.load(file, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).webhooks.sources["everee"]
    assert source.key_bytes() == (b"first,key", b"second")


def test_foreign_credentials_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "everee_api_key").write_text("x")
    (tmp_path / "tls.crt").write_text("x")
    assert Config.load(None, {"CREDENTIALS_DIRECTORY": str(tmp_path)}) == Config()


def test_lists_from_the_environment() -> None:
    environ = {
        "TASKENGINE_ENGINE__QUEUES": "a, b,c",
        "TASKENGINE_JOBS__MODULES": '["shop.jobs", "payroll.jobs"]',
    }
    config = Config.load(None, environ)
    assert config.engine.queues == ("a", "b", "c")
    assert config.jobs.modules == ("shop.jobs", "payroll.jobs")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("12h", 43_200),
        ("30d", 2_592_000),
        ("1d 12h", 129_600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert Config.load(None, {"TASKENGINE_RETENTION__FAILED": text}).retention.failed == seconds


@pytest.mark.parametrize("age", ["0", "-5"])
def test_a_min_age_of_nothing_means_the_default(age: str) -> None:
    assert Config.load(None, {"TASKENGINE_WEBHOOKS__MIN_AGE": age}).webhooks.min_age == 300.0


def test_workers_poll_all_queues_unless_told_in_the_engines_order() -> None:
    assert Config().workers.queues == ("payroll", "high", "default", "low")
    some = Config(workers=Workers(queues=("low", "payroll")))
    assert some.workers.queues == ("payroll", "low")


def test_notices_go_to_the_second_queue_else_the_first() -> None:
    assert Config().notice_queue == "high"
    assert Config.load(None, {"TASKENGINE_ENGINE__QUEUES": "only"}).notice_queue == "only"
    assert Config.load(None, {"TASKENGINE_NOTICES__QUEUE": "low"}).notice_queue == "low"


def test_sections_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Config().workers.slots = 3


def test_keys_as_their_encoding_says() -> None:
    def key(**changed: str) -> tuple[bytes, ...]:
        source = {"scheme": "standard", "job": "j", **changed}
        return (
            Config.model_validate({"webhooks": {"sources": {"s": source}}})
            .webhooks.sources["s"]
            .key_bytes()
        )

    assert key(keys="whsec_YWJj") == (b"abc",)
    assert key(keys="616263", key_encoding="hex") == (b"abc",)
    assert key(keys="whsec_YWJj", scheme="stripe") == (b"whsec_YWJj",)


def test_reload_takes_three_keys_and_names_the_others() -> None:
    new = Config.load(
        None,
        {
            "TASKENGINE_LOGS__LEVEL": "debug",
            "TASKENGINE_WORKERS__SLOTS": "10",
            "TASKENGINE_POSTGRES__DSN": "postgresql://u:secret@h/d",
            "TASKENGINE_QUEUES__PAYROLL__RESERVED": "2",
            "TASKENGINE_POSTGRES__SCHEMA": "other",
        },
    )
    changes, needs_restart = Config().reloadable_diff(new)
    assert changes == {"logs.level": "debug", "workers.slots": 10}
    assert needs_restart == ["postgres.dsn", "postgres.schema", "queues.payroll.reserved"]


def test_the_file_asked_for_then_the_named_one_then_the_usual_one(tmp_path: Path) -> None:
    named = {"TASKENGINE_CONFIG": "/etc/named.toml"}
    assert find_config(tmp_path, Path("asked.toml"), named) == Path("asked.toml")
    assert find_config(tmp_path, None, named) == Path("/etc/named.toml")
    assert find_config(tmp_path, None, {}) is None
    assert find_config(tmp_path, None, {}) != write(tmp_path, "")
    assert find_config(tmp_path, None, {}) == tmp_path / "config.toml"


def test_secrets_are_not_in_the_text_of_a_config() -> None:
    config = Config.load(None, {"TASKENGINE_POSTGRES__DSN": "postgresql://u:secret@h/d"})
    assert "secret@" not in repr(config) + str(config)
