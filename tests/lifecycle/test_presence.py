"""What a worker knows of its boot, where the kernel's file is hidden too."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskengine.lifecycle.presence import boot_id

_DASHED = "0f8fad5b-d9cb-469f-a165-70867728950e"
_SYSTEMDS = {"BOOT_ID": _DASHED.replace("-", "")}


def test_systemd_says_it_where_the_kernels_file_is_hidden(tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    assert boot_id(file, _SYSTEMDS) == _DASHED
    file.write_text("another-boot\n")
    assert boot_id(file, _SYSTEMDS) == "another-boot"


@pytest.mark.parametrize("environ", [{}, {"BOOT_ID": ""}, {"BOOT_ID": "%b"}])
def test_where_nobody_says_it_is_empty(tmp_path: Path, environ: dict[str, str]) -> None:
    assert boot_id(tmp_path / "hidden", environ) == ""
