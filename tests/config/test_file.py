"""config.toml is the reference of all keys: it names each one, with its default, and it loads."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from taskengine.config import Config, Queue, Source

FILE = Path(__file__).parents[2] / "config.toml"
KEY = re.compile(r"^(# )?(?:([a-z_]+) = (.+?)\s+# \S.*|\[([a-z_.]+)\])$")
NAMED: dict[str, type[BaseModel]] = {"queues.payroll": Queue, "webhooks.sources.everee": Source}


def written() -> dict[str, tuple[bool, str]]:
    """Each `section.key` of the file: whether it is commented out, and the text of its value."""
    found: dict[str, tuple[bool, str]] = {}
    section = ""
    for line in FILE.read_text().splitlines():
        match = KEY.match(line)
        if match and match[4]:
            section = match[4]
        elif match:
            assert f"{section}.{match[2]}" not in found
            found[f"{section}.{match[2]}"] = (bool(match[1]), match[3])
    return found


def expected() -> dict[str, Any]:
    """Each `section.key` of the models with its default (None: has none)."""
    sections = dict(NAMED)
    for name, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            sections[name] = field.annotation
    return {
        f"{section}.{field.alias or name}": None
        if field.default is PydanticUndefined
        else field.default
        for section, model in sections.items()
        for name, field in model.model_fields.items()
        if not (section == "webhooks" and name == "sources")
    }


def test_the_file_names_exactly_the_keys_there_are() -> None:
    assert set(written()) == set(expected())


@pytest.mark.parametrize("key", sorted(expected()))
def test_each_key_shows_its_default(key: str) -> None:
    commented, text = written()[key]
    default = expected()[key]
    if default is None:
        assert commented, "a key without a default is commented out"
        return
    assert commented == key.startswith(("queues.", "webhooks.sources."))
    value = tomllib.loads(f"value = {text}")["value"]
    section, name = key.rsplit(".", 1)
    assert shown(section, name, value) == shown(section, name, default)


def shown(section: str, name: str, value: Any) -> Any:
    """The value as the model reads it."""
    if section in NAMED:
        return list(value) if isinstance(value, tuple | list) else value
    read = getattr(Config.model_validate({section: {name: value}}), section)
    return read.model_dump(by_alias=True)[name]


def test_it_loads_and_is_the_default() -> None:
    assert Config.load(FILE, {}) == Config()


def test_it_loads_with_every_comment_taken_away(tmp_path: Path) -> None:
    """What is commented out is valid as it stands."""
    text = re.sub(r"^# (?=\[[a-z.]+\]$|[a-z_]+ = )", "", FILE.read_text(), flags=re.MULTILINE)
    whole = tmp_path / "config.toml"
    whole.write_text(text)
    config = Config.load(whole, {})
    assert isinstance(config.webhooks.sources, Mapping)
    assert config.webhooks.sources["everee"].job == "payroll-event"
    assert config.queue("payroll").reserved == 0
    assert config.postgres.dsn is not None
