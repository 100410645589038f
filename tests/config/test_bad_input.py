"""A configuration that cannot be used is refused: place, key, and what would be right."""

import traceback
from pathlib import Path

import pytest

from taskengine.config import Config
from taskengine.errors import ConfigError

SOURCE = '[webhooks.sources.everee]\nscheme = "everee"\njob = "j"\n'

BAD = {
    "unknown key": ("[workers]\nslotz = 3", "workers.slotz: unknown key, did you mean 'slots'?"),
    "key of another section": ("[engine]\nslots = 3", "did you mean 'workers.slots'?"),
    "unknown section": ("[wokers]\nslots = 3", "wokers: unknown section, did you mean 'workers'?"),
    "wrong type": ('[workers]\nslots = "many"', "workers.slots: must be a valid integer"),
    "wrong type shown": ('[workers]\nslots = "many"', "(got 'many')"),
    "boolean for a number": ("[workers]\nslots = true", "must be a number, not true or false"),
    "section that is none": ("workers = 3", "workers: must be a valid dictionary"),
    "below its bound": ("[workers]\nslots = 0", "must be greater than or equal to 1 (got 0)"),
    "above its bound": ("[workers]\nthreads = 257", "must be less than or equal to 256 (got 257)"),
    "claim batch": ("[workers]\nclaim_batch = 1001", "workers.claim_batch"),
    "not finite": ("[redis]\ntimeout = nan", "redis.timeout"),
    "no duration": ('[retention]\nfailed = "30 years"', 'such as "90s", "15m", "12h", "30d"'),
    "no queues": ("[engine]\nqueues = []", "engine.queues"),
    "queue given twice": ('[engine]\nqueues = ["a", "a"]', "'a' given more than once"),
    "queue name": ('[engine]\nqueues = ["Pay roll"]', "'Pay roll' is no name"),
    "unlisted queue polled": ('[workers]\nqueues = ["payrol"]', "did you mean 'payroll'?"),
    "settings of an unlisted queue": ("[queues.payrol]\nreserved = 1", "did you mean 'payroll'?"),
    "unknown key of a queue": ("[queues.low]\nreserve = 1", "queues.low.reserve: unknown key"),
    "more reserved than slots": (
        "[workers]\nslots = 5\n[queues.low]\nreserved = 6",
        "add up to 6, more than workers.slots (5)",
    ),
    "unlisted queue for notices": ('[notices]\nqueue = "hihg"', "notices.queue names 'hihg'"),
    "short lease": ("[heartbeat]\nlease = 8", "lease (8 s) must be at least 3 x beat, 9 s here"),
    "schema name": ('[postgres]\nschema = "x; drop"', "postgres.schema"),
    "module name": ('[jobs]\nmodules = ["shop/jobs.py"]', "'shop/jobs.py' is no module name"),
    "log level": ('[logs]\nlevel = "loud"', "must be 'debug', 'info', 'warning' or 'error'"),
    "no TOML": ("[workers", "is not TOML"),
    "source without keys": (SOURCE, "webhooks.sources.everee.keys: is missing"),
    "source with no key": (SOURCE + "keys = []", "at least one key is needed"),
    "source with a blank key": (SOURCE + 'keys = ["k", " "]', "a key is blank"),
    "source with a key of another encoding": (
        SOURCE + 'keys = ["zz"]\nkey_encoding = "hex"',
        "a key is not hex",
    ),
    "source with a queue nobody has": (
        SOURCE + 'keys = ["k"]\nqueue = "payrol"',
        "webhooks.sources.everee.queue names 'payrol'",
    ),
    "source with an unknown scheme": (
        SOURCE.replace('"everee"\n', '"evere"\n') + 'keys = ["k"]',
        "must be 'everee', 'standard', 'stripe' or 'github' (got 'evere')",
    ),
    "source with an id nowhere": (SOURCE + 'keys = ["k"]\nid = "id"', '"header:<name>" or'),
    "unknown key of a source": (SOURCE + 'key = ["k"]', "did you mean 'keys'?"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        Config.load(file, {})
    assert message in str(refused.value)
    assert str(file) in str(refused.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        Config.load(tmp_path / "none.toml", {})


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        Config.load(tmp_path / "config.toml", {})


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("TASKENGINE_WORKERS__SLOTZ", "variable TASKENGINE_WORKERS__SLOTZ: workers.slotz: unknown"),
        ("TASKENGINE_WORKERZ__SLOTS", "unknown section, did you mean 'workers'?"),
        ("TASKENGINE_WORKERS_SLOTS", "fits no key: write TASKENGINE_WORKERS__SLOTS"),
        ("TASKENGINE_WORKERS", "fits no key: write TASKENGINE_WORKERS__<KEY>"),
        ("TASKENGINE_WORKERS__SLOTS__X", "workers.slots: must be a valid integer"),
    ],
)
def test_bad_environment(variable: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.load(None, {variable: "7"})
    assert message in str(refused.value)


def test_contradicting_environment() -> None:
    with pytest.raises(ConfigError, match="contradicts"):
        Config.load(None, {"TASKENGINE_WEB__PORT": "1", "TASKENGINE_WEB__PORT__X": "1"})


@pytest.mark.parametrize("name", ["postgres_dns", "postgress_dsn", "webhook_everee_key"])
def test_misspelt_credential(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("hunter2")
    with pytest.raises(ConfigError, match=f"credential .*/{name} fits no key"):
        Config.load(None, {"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_credentials_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Config.load(None, {"CREDENTIALS_DIRECTORY": str(tmp_path / "none")})


def test_blank_credential_of_keys_fails_closed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(SOURCE + 'keys = ["from-the-file"]')
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "webhook_everee_keys").write_text("\n \n")
    with pytest.raises(ConfigError, match=r"credential .*at least one key is needed"):
        Config.load(file, {"CREDENTIALS_DIRECTORY": str(secrets)})


@pytest.mark.parametrize(
    "text",
    [
        '[postgres]\ndsn = "mysql://u:hunter2@h"',
        '[redis]\nurl = "http://:hunter2@h"',
        'postgres = "postgresql://u:hunter2@h"',
        '[postgres]\ndsn = ["hunter2"]',
        SOURCE + 'keys = ["hunter2"]\nkey_encoding = "hex"',
        SOURCE + 'keys = "[hunter2"',
        SOURCE + 'keys = { hunter2 = "hunter2" }\nkey = "hunter2"',
    ],
)
def test_no_secret_in_the_error_or_its_causes(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        Config.load(file, {})
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_all_problems_at_once(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[workers]\nslots = 0\nthreads = 0\n[web]\nprt = 1\n")
    with pytest.raises(ConfigError) as refused:
        Config.load(file, {})
    assert len(str(refused.value).splitlines()) == 3
