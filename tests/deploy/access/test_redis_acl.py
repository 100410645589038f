"""Under the user of `deploy/redis/users.acl` the engine says all it has to say, and nothing else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from taskengine import TaskEngine
from taskengine.config import Config
from tests.deploy.access.guarded import DEPLOY, READONLY, RUNTIME, Guarded
from tests.support.until import until

pytestmark = pytest.mark.slow

ENGINE = Path(__file__).parents[3] / "daemon/taskengine"
SOON = 30.0


@pytest_asyncio.fixture
async def user(guarded: Guarded) -> AsyncIterator[Any]:
    """The engine's own user, by hand."""
    client = Redis.from_url(guarded.redis_url, protocol=2)
    yield client
    await client.aclose()


def allowed() -> set[str]:
    line = (DEPLOY / "redis/users.acl").read_text().splitlines()[1]
    return {word[1:].partition("|")[0] for word in line.split() if word.startswith("+")}


def said() -> set[str]:
    """Every command in the scripts, and every one that the broker sends by itself."""
    scripts = "".join(path.read_text() for path in ENGINE.glob("broker/lua/*.lua"))
    in_scripts = re.findall(r"redis\.call\('([A-Z]+)'", scripts)
    speaks = [*ENGINE.glob("broker/*.py"), ENGINE / "insight/redis_state.py"]
    python = "".join(path.read_text() for path in speaks)
    sent = re.findall(r"""(?:\(|execute\()["']([A-Z]{3,})["'],""", python)
    sent += re.findall(r"""\.command\(["']([A-Z]+)["']""", python)
    return {word.lower() for word in (*in_scripts, *sent)}


def test_what_the_engine_says_and_what_the_user_may_say_are_the_same() -> None:
    of_redis_py = {"ping", "select", "client", "subscribe", "unsubscribe"}
    assert said() | of_redis_py == allowed()


async def test_a_daemon_delivers_by_redis_under_its_user(guarded: Guarded, user: Any) -> None:
    with guarded.daemon(RUNTIME):
        async with TaskEngine(Config.load(guarded.config(RUNTIME))) as engine:

            async def sealed() -> bool:
                return bool(await user.hget("taskengine:epoch", "run_id"))

            await until(sealed, SOON)
            sent = [
                await engine.dispatch("guarded-plain", {"number": n}, delay=n % 2)
                for n in range(20)
            ]
            assert all(each.delivered for each in sent)
            for each in sent:
                done = await engine.wait(each.execution_id, SOON)
                assert done.state.value == "succeeded"
            status = await asyncio.to_thread(guarded.say, READONLY, "status", "--json")
            await engine.parts.client.command("DEL", engine.parts.keys.epoch)
            await until(sealed, SOON)  # the rebuild, as after a restart
    told = json.loads(status)
    assert told["redis"]["memory"] == "good", told["redis"]
    assert [each["direct"] for each in told["daemons"] if each["direct"]] == []
    wrong = guarded.logged("warning", "error")
    assert [line for line in wrong if "ermission" in str(line) or "broker" in str(line)] == []


@pytest.mark.parametrize(
    "words",
    [
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("SHUTDOWN",),
        ("SCRIPT", "FLUSH"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("MONITOR",),
        ("GET", "somebody:else"),
        ("SET", "somebody:else", "1"),
        ("DEL", "taskengineer:queue"),
        ("PUBLISH", "somebody:else", "1"),
        ("EVAL", "return redis.call('GET', KEYS[1])", "1", "somebody:else"),
        ("EVAL", "return redis.call('FLUSHALL')", "0"),
    ],
    ids=" ".join,
)
async def test_nothing_else_is_allowed(user: Any, words: tuple[str, ...]) -> None:
    with pytest.raises((NoPermissionError, ResponseError), match=r"permission|ACL failure"):
        await user.execute_command(*words)


async def test_other_channels_are_closed(user: Any) -> None:
    listening = user.pubsub()
    with pytest.raises(NoPermissionError):
        await listening.subscribe("somebody:else")
        await listening.get_message(timeout=5)
    await listening.aclose()


async def test_nobody_comes_in_without_a_name(guarded: Guarded) -> None:
    place = guarded.redis_url.partition("@")[2]
    stranger: Any = Redis.from_url(f"unix://{place}", protocol=2)
    with pytest.raises(RedisError, match=r"NOAUTH|Authentication required"):
        await stranger.get("taskengine:epoch")
    await stranger.aclose()


async def test_the_server_evicts_nothing(user: Any) -> None:
    told = await user.info("memory")
    assert told["maxmemory_policy"] == "noeviction"
