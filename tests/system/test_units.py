"""The unit files, read by systemd itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.embedded.test_users import need

pytestmark = pytest.mark.system

UNITS = Path(__file__).parents[2] / "systemd"
DROPINS = UNITS / "dropins"


@pytest.fixture(autouse=True)
def systemd() -> None:
    need(Path("/usr/bin/systemd-analyze").exists(), "systemd: apt-get install -y systemd")


def analyzed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, words)]
    return subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)


def with_dropins(folder: Path, *names: str) -> Path:
    """The service as it is with these drop-ins, its program one that is there."""
    text = (UNITS / "taskengine.service").read_text()
    for name in names:
        text += "\n" + (DROPINS / name).read_text()
    unit = folder / "taskengine.service"
    unit.write_text(text)
    return unit


@pytest.mark.parametrize(
    ("dropins", "tenths"),
    [
        ((), 11),
        (("60-localhost-only.conf",), 9),
        (("70-no-network.conf",), 2),
    ],
)
def test_its_exposure_is_no_more_than(
    tmp_path: Path, dropins: tuple[str, ...], tenths: int
) -> None:
    unit = with_dropins(tmp_path, *dropins)
    told = analyzed("security", "--offline=yes", f"--threshold={tenths}", unit)
    assert told.returncode == 0, told.stdout[-300:]
    tighter = analyzed("security", "--offline=yes", f"--threshold={tenths - 1}", unit)
    assert tighter.returncode == 1, "the README says a higher score than it is"


def test_the_template_is_the_service_but_for_its_names() -> None:
    service = (UNITS / "taskengine.service").read_text().splitlines()[1:]
    template = (UNITS / "taskengine@.service").read_text().splitlines()[2:]
    told = {
        "Description=TaskEngine worker daemon": "Description=TaskEngine worker daemon %i",
        "StateDirectory=taskengine": "StateDirectory=taskengine/%i",
        "RuntimeDirectory=taskengine": "RuntimeDirectory=taskengine-%i",
    }
    ours = [told.get(line, line).replace("/config.toml", "/%i.toml") for line in service]
    ours = [line.replace(" taskengine-http.socket", "") for line in ours]
    assert template == ours


def test_the_first_lines_of_a_drop_in_say_what_it_is_for() -> None:
    for dropin in DROPINS.glob("*.conf"):
        assert dropin.read_text().startswith("# "), dropin
