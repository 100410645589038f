"""`compose.yaml` and the nginx example, read by a parser: nothing is started from them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from taskengine.config import Config
from tests.embedded.test_users import need

pytestmark = pytest.mark.system

DEPLOY = Path(__file__).parents[2] / "deploy"
_READ = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)"
_NGINX = """
error_log stderr;
pid {folder}/nginx.pid;
events {{}}
http {{
    include {folder}/taskengine.conf;
}}
"""


def compose() -> dict[str, Any]:
    command = ["/usr/bin/python3", "-c", _READ, str(DEPLOY / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    need(done.returncode == 0, f"apt-get install -y python3-yaml: {done.stderr}")
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_what_compose_says_to_the_daemon_is_understood() -> None:
    said = compose()["services"]["taskengine"]["environment"]
    config = Config.load(None, said)
    assert (config.migrate.auto, config.web.host) == (True, "0.0.0.0")
    assert config.redis.url.get_secret_value() == "redis://valkey:6379/0"


def test_what_compose_names_is_there() -> None:
    read = compose()
    services, volumes, secrets = read["services"], read["volumes"], read["secrets"]
    assert set(services) == {"postgres", "valkey", "taskengine"}
    for service in services.values():
        assert set(service.get("secrets", [])) <= set(secrets)
        assert set(service.get("depends_on", {})) <= set(services)
        named = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert {name for name in named if not name.startswith(".")} <= set(volumes)
    assert "noeviction" in services["valkey"]["command"]
    grace = services["taskengine"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > Config().workers.drain_timeout


def test_nginx_accepts_its_example(tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    assert nginx is not None, "apt-get install -y nginx-light"
    pem, key = tmp_path / "a.pem", tmp_path / "a.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a"]
    subprocess.run([*made, "-out", pem, "-keyout", key], check=True, capture_output=True)
    text = (DEPLOY / "nginx/taskengine.conf").read_text()
    for named, ours in (
        ("/etc/ssl/certs/hooks.example.com.pem", pem),
        ("/etc/ssl/private/hooks.example.com.key", key),
    ):
        assert text.count(named) == 1
        text = text.replace(named, str(ours))
    (tmp_path / "taskengine.conf").write_text(text)
    (tmp_path / "nginx.conf").write_text(_NGINX.format(folder=tmp_path))
    done = subprocess.run(
        [nginx, "-t", "-q", "-c", tmp_path / "nginx.conf"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
