"""`taskengine dev`: what it does before the daemon. The whole of it is tried in tests/system."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from taskengine.cli.dev import _begin_anew
from taskengine.config import Config
from taskengine.lifecycle.parts import Parts
from taskengine.store import definitions
from tests.cli.conftest import Cli
from tests.support.scheduling import scheduled


async def test_after_a_pause_the_examples_begin_anew_and_no_other_schedule_does(
    parts: Parts, config: Config
) -> None:
    long_ago = parts.clock.now() - timedelta(days=3)
    jobs = [scheduled("example-tick"), scheduled("mine")]
    async with parts.store.connection() as c:
        await definitions.register(c, [(each.name, each.settings) for each in jobs], long_ago)
        await _begin_anew(config)
        found = {each.name: each.fired_until for each in await definitions.all_(c)}
    assert found["mine"] == long_ago
    assert found["example-tick"] > long_ago + timedelta(days=2)


async def test_the_first_start_finds_an_empty_database(config: Config) -> None:
    await _begin_anew(config)


def test_jobs_that_cannot_be_imported_are_told_before_anything_starts(
    alone: Path, bare: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alone / "config.toml").write_text('[jobs]\nmodules = ["no.such.module"]\n')
    result = bare.now("dev")
    assert (result.status, result.out) == (78, "")
    assert "'no.such.module', which cannot be imported" in result.err
    assert not (alone / ".taskengine").exists()
