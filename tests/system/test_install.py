"""`deploy/install.sh` and `uninstall.sh` on a host of their own, under a real systemd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.host import Host, booted

pytestmark = [pytest.mark.system, pytest.mark.slow]

CREDENTIALS = "/etc/taskengine/credentials"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with booted() as host:
        yield host


@pytest.fixture(scope="module")
def install(host: Host) -> str:
    return f"{host.project}/deploy/install.sh"


@pytest.fixture(scope="module")
def uninstall(host: Host) -> str:
    return f"{host.project}/deploy/uninstall.sh"


def started(host: Host) -> str:
    return host.shows("taskengine", "ExecMainStartTimestampMonotonic")


def changes(host: Host, text: str) -> None:
    """Another version of the program, as an upgrade brings it."""
    with (host.project / "daemon/taskengine/__init__.py").open("a") as file:
        file.write(f"\n# {text}\n")


def test_wrong_calls_are_refused_and_change_nothing(
    host: Host, install: str, uninstall: str
) -> None:
    for script in (install, uninstall):
        wrong = host.run(script, "--nonsense")
        assert (wrong.returncode, "--nonsense" in wrong.stderr) == (2, True)
        stranger = host.run("runuser", "-u", "nobody", "--", script)
        assert (stranger.returncode, "root" in stranger.stderr) == (4, True)
    assert not host.exists("/opt/taskengine/.venv")


def test_with_postgres_away_it_says_so_and_starts_nothing(host: Host, install: str) -> None:
    told = host.run(install, TASKENGINE_POSTGRES__DSN="postgresql://taskengine@/x?host=/nowhere")
    assert (told.returncode, "nothing was started" in told.stderr) == (5, True), told.stderr
    assert host.run("systemctl", "is-enabled", "taskengine").stdout.strip() == "disabled"
    host.say("rm", "-r", CREDENTIALS)


def test_it_installs_without_starting(host: Host, install: str) -> None:
    before = host.say("sha256sum", "/etc/taskengine/config.toml")
    host.say(install, "--no-start", **host.stores)
    assert host.say("sha256sum", "/etc/taskengine/config.toml") == before
    assert host.say("stat", "-c", "%a %U", CREDENTIALS) == "700 root\n"
    modes = host.say("find", CREDENTIALS, "-type", "f", "-printf", "%f %m %u\n")
    assert sorted(modes.splitlines()) == ["postgres_dsn 600 root", "redis_url 600 root"]
    assert host.run("systemctl", "is-active", "taskengine").stdout.strip() == "inactive"
    assert host.say("systemctl", "is-enabled", "taskengine").strip() == "enabled"
    host.say("taskengine", "migrate", "check")
    assert host.say("readlink", "-f", "/opt/taskengine/.venv/bin/python").startswith("/usr/bin/")
    verified = host.run("systemd-analyze", "verify", "taskengine.service")
    assert (verified.returncode, verified.stderr) == (0, "")


def test_it_starts_and_jobs_run(host: Host, install: str) -> None:
    host.say(install)
    assert host.say("systemctl", "is-active", "taskengine").strip() == "active"
    ids = host.dispatch(3, 0)
    host.becomes(lambda: host.states(ids) == {("succeeded", 1)})
    assert host.shows("taskengine", "User") == "taskengine"


def test_a_second_time_changes_nothing(host: Host, install: str) -> None:
    before = started(host), host.say("stat", "-c", "%i %Z", "/opt/taskengine/.venv/bin/taskengine")
    host.say("chmod", "644", f"{CREDENTIALS}/redis_url")  # what is not right is mended all the same
    host.say(install, TASKENGINE_POSTGRES__DSN="postgresql://another@/one")
    after = started(host), host.say("stat", "-c", "%i %Z", "/opt/taskengine/.venv/bin/taskengine")
    assert before == after
    assert host.say("stat", "-c", "%a", f"{CREDENTIALS}/redis_url") == "600\n"
    assert f"port={host.postgres}" in host.say("cat", f"{CREDENTIALS}/postgres_dsn")


def test_an_upgrade_lets_running_jobs_end(host: Host, install: str) -> None:
    before = started(host)
    ids = host.dispatch(5, 8)
    host.becomes(lambda: host.states(ids) == {("running", 1)})
    changes(host, "a newer one")
    host.say(install)
    assert started(host) != before
    host.becomes(lambda: host.states(ids) == {("succeeded", 1)})
    assert "a newer one" in host.say(
        "bash", "-c", "cat /opt/taskengine/.venv/lib/python3.*/site-packages/taskengine/__init__.py"
    )
    assert host.exists("/opt/taskengine/jobs/slow_jobs.py")
    assert not host.exists("/opt/taskengine/.venv.old")


def test_a_migration_that_fails_leaves_the_old_one_at_work(host: Host, install: str) -> None:
    before, broken = (
        started(host),
        host.project / "daemon/taskengine/store/migrations/0999_broken.sql",
    )
    broken.write_text("select 1 from no_such_table;\n")
    told = host.run(install)
    broken.unlink()
    assert (told.returncode, "0999_broken" in told.stderr) == (78, True), told.stderr
    assert started(host) == before
    ids = host.dispatch(2, 0)
    host.becomes(lambda: host.states(ids) == {("succeeded", 1)})
    host.say(install)
    assert not host.exists("/opt/taskengine/.venv.new")


def test_it_goes_and_leaves_data_and_configuration(host: Host, uninstall: str) -> None:
    host.say(uninstall)
    assert host.shows("taskengine", "LoadState") == "not-found"
    assert host.lists("/opt/taskengine") == {"jobs"}
    assert host.lists("/etc/taskengine") == {"config.toml", "credentials"}
    assert host.lists(CREDENTIALS) == {"postgres_dsn", "redis_url"}
    assert host.exists("/var/lib/taskengine")
    assert not host.exists("/usr/local/bin/taskengine")


def test_with_purge_they_go_too(host: Host, install: str, uninstall: str) -> None:
    host.say(install, "--no-start")
    host.say(uninstall, "--purge")
    for gone in ("/etc/taskengine", "/var/lib/taskengine", "/opt/taskengine/.venv"):
        assert not host.exists(gone)
    host.say(install, "--no-start", **host.stores)
    assert (
        host.say("cat", "/etc/taskengine/config.toml") == (host.project / "config.toml").read_text()
    )
    assert len(host.executions()) >= 10  # the database is nobody's to purge
