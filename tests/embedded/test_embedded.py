"""The private servers on a real machine: what is kept, what is left, and what is not touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import asyncpg
import pytest
import redis.asyncio as redis

from taskengine.embedded import EmbeddedError, EmbeddedServers, Servers, find_running
from taskengine.embedded.processes import servers_in, until

Modes = dict[Path, tuple[int, int, int]]


def modes(*paths: Path) -> Modes:
    """Mode and owners of each path and of every folder above it."""
    above = {folder for path in paths for folder in (path, *path.parents)}
    return {p: (s.st_mode, s.st_uid, s.st_gid) for p in above if p.exists() for s in [p.stat()]}


async def sql(servers: Servers, statement: str) -> object:
    connection = await asyncpg.connect(servers.dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def key_store(servers: Servers) -> redis.Redis:
    return redis.Redis.from_url(servers.redis_url, decode_responses=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose database is made once for this file; the name tests our quoting."""
    project = tmp_path_factory.mktemp("a project, 100% ours")
    yield project
    last = EmbeddedServers(project, durable=False)
    last.start()
    last.remove()
    assert list(project.iterdir()) == []


@pytest.fixture
def pair(folder: Path) -> Iterator[EmbeddedServers]:
    servers = EmbeddedServers(folder, durable=False)
    yield servers
    servers.stop()


def test_no_permission_of_any_parent_folder_is_changed(folder: Path, pair: EmbeddedServers) -> None:
    before = modes(folder, Path(sys.prefix), Path("/var/lib"))
    pair.start()
    pair.stop()
    assert {path: modes(path)[path] for path in before} == before


async def test_both_answer_over_private_sockets_only(pair: EmbeddedServers) -> None:
    running = pair.start()
    assert await sql(running, "show listen_addresses") == ""
    assert await sql(running, "select current_user || '@' || current_database()") == (
        "taskengine@taskengine"
    )
    async with key_store(running) as store:
        assert await store.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert await store.config_get("port") == {"port": "0"}
    for socket in (pair.postgres.socket, pair.valkey.socket):
        assert socket.is_socket()
        assert socket.parent.stat().st_mode & 0o077 == 0


async def test_data_is_kept_between_runs(pair: EmbeddedServers) -> None:
    running = pair.start()
    await sql(running, "create table kept as select 42 as answer")
    async with key_store(running) as store:
        await store.set("kept", "42")
    pair.stop()

    running = pair.start()
    assert await sql(running, "select answer from kept") == 42
    await sql(running, "drop table kept")
    async with key_store(running) as store:
        assert await store.get("kept") == "42"


def test_stop_leaves_no_process_and_no_socket(pair: EmbeddedServers) -> None:
    pair.start()
    postgres, valkey = pair.postgres, pair.valkey
    assert len(servers_in(postgres.data)) > 1
    assert servers_in(valkey.data) == {valkey.pid}
    pair.stop()
    assert servers_in(postgres.data) | servers_in(valkey.data) == set()
    assert not postgres.socket.parent.exists()


def test_the_servers_have_a_session_of_their_own(pair: EmbeddedServers) -> None:
    pair.start()
    for server in (pair.postgres, pair.valkey):
        assert server.pid is not None
        assert os.getsid(server.pid) == server.pid


def test_a_second_owner_is_refused(folder: Path, pair: EmbeddedServers) -> None:
    pair.start()
    with pytest.raises(EmbeddedError, match="in use by another process"):
        EmbeddedServers(folder).start()
    assert pair.postgres.pid is not None


def test_other_commands_find_the_running_servers(folder: Path, pair: EmbeddedServers) -> None:
    assert find_running(folder) is None
    running = pair.start()
    assert find_running(folder) == running
    connection = running.state / "connection.json"
    assert connection.stat().st_mode & 0o777 == 0o600
    told = connection.read_text()
    pair.stop()
    assert find_running(folder) is None
    connection.write_text(told.replace(f'"pid": {os.getpid()}', '"pid": 1'))
    assert find_running(folder) is None, "pid 1 did not start when we did"


async def test_postgres_comes_back_from_stop_crash_and_kill(pair: EmbeddedServers) -> None:
    running = pair.start()
    await sql(running, "create table survivors as select 1 as one")
    pair.restart_postgres()
    pair.restart_postgres(immediate=True)
    pair.postgres.kill()
    assert servers_in(pair.postgres.data) == set()
    pair.postgres.start()
    assert await sql(running, "select one from survivors") == 1
    await sql(running, "drop table survivors")


async def test_valkey_comes_back_with_its_keys_or_empty(pair: EmbeddedServers) -> None:
    running = pair.start()
    async with key_store(running) as store:
        await store.set("key", "value")
    pair.restart_redis(keep_data=True)
    async with key_store(running) as store:
        assert await store.get("key") == "value"
    pair.restart_redis(keep_data=False)
    async with key_store(running) as store:
        assert await store.dbsize() == 0


async def test_a_frozen_server_answers_once_thawed(pair: EmbeddedServers) -> None:
    running = pair.start()
    pair.valkey.freeze()
    assert not pair.valkey.ready()
    pair.valkey.thaw()
    async with key_store(running) as store:
        assert await store.ping()
    pair.postgres.freeze()
    pair.stop()
    assert servers_in(pair.postgres.data) == set()


OWNER = """
import sys, time
from pathlib import Path
from taskengine.embedded import EmbeddedServers
servers = EmbeddedServers(Path(sys.argv[1]), durable=False)
servers.start()
print(servers.postgres.data, servers.valkey.data, sep="\\n", flush=True)
time.sleep(60)
"""


@pytest.fixture
def killed(folder: Path) -> set[Path]:
    """The data folders of servers whose owner has just been killed."""
    owner = [sys.executable, "-c", OWNER, str(folder)]
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(owner, stdout=subprocess.PIPE, env={"PYTHONPATH": path}) as process:
        assert process.stdout is not None
        data = {Path(os.fsdecode(process.stdout.readline().strip())) for _ in range(2)}
        assert all(servers_in(path) for path in data)
        process.send_signal(SIGKILL)
    return data


def test_the_servers_end_when_their_owner_is_killed(killed: set[Path]) -> None:
    assert until(lambda: not any(servers_in(path) for path in killed), 10)


async def test_the_next_start_copes_with_a_killed_owner(
    folder: Path, killed: set[Path], pair: EmbeddedServers
) -> None:
    assert find_running(folder) is None
    running = pair.start()
    assert await sql(running, "select 1") == 1


async def test_a_pid_file_that_names_a_stranger_is_no_obstacle(pair: EmbeddedServers) -> None:
    """After a crash of the machine another process of ours may bear the old postmaster's pid."""
    pair.start()
    pair.postgres.kill()
    pid_file = pair.postgres.data / "postmaster.pid"
    pid, rest = pid_file.read_text().split("\n", 1)
    assert int(pid) > 0
    pid_file.write_text(f"{os.getpid()}\n{rest}")
    pair.postgres.start()
    assert pair.postgres.ready()


def test_a_server_that_cannot_start_tells_why(pair: EmbeddedServers) -> None:
    pair.start()
    pair.postgres.stop()
    version = pair.postgres.data / "PG_VERSION"
    right = version.read_text()
    version.write_text("11\n")
    try:
        with pytest.raises(EmbeddedError, match="initialized by PostgreSQL version 11"):
            pair.postgres.start()
    finally:
        version.write_text(right)


async def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("long" * 20) / ("path" * 20)
    deep.mkdir(parents=True)
    pair = EmbeddedServers(deep, durable=False)
    try:
        assert await sql(pair.start(), "select 1") == 1
    finally:
        pair.remove()
