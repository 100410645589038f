"""What an operator is told of an error, on a terminal and in the journal."""

import os
import sys
from pathlib import Path

import pytest

from taskengine.cli.failure import CONFIG, report
from taskengine.errors import ConfigError


@pytest.mark.parametrize("journal", [True, False])
def test_an_error_is_one_in_the_journal_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: bool
) -> None:
    with (tmp_path / "stderr").open("w") as stream:
        status = os.fstat(stream.fileno())
        inode = status.st_ino + (not journal)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{inode}")
        monkeypatch.setattr(sys, "stderr", stream)
        assert report(ConfigError("a.b: wrong\nc.d: wrong")) == CONFIG
    lines = (tmp_path / "stderr").read_text().splitlines()
    mark = "<3>" if journal else ""
    assert lines == [f"{mark}taskengine: a.b: wrong", f"{mark}taskengine: c.d: wrong"]
