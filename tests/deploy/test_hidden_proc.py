"""Under `ProcSubset=pid`, as in our unit, /proc holds processes and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

_SHOW = """
import time
from pathlib import Path
from taskengine.telemetry.metrics import Metrics
assert not Path("/proc/stat").exists()
metrics = Metrics(version="1", queues=[], sources=[], now=time.time)
get = metrics.registry.get_sample_value
for name in ("resident_memory_bytes", "cpu_seconds_total", "open_fds", "virtual_memory_bytes"):
    assert get(f"process_{name}") > 0, name
print(time.time() - get("process_start_time_seconds") - time.clock_gettime(time.CLOCK_BOOTTIME) + born)
"""
_BORN = """
import os, time
stat = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
born = int(stat[19]) / os.sysconf("SC_CLK_TCK")
"""


def test_the_process_is_shown_all_the_same() -> None:
    """And its start is right: what is printed is by how much it is not."""
    hidden = 'mount -t proc -o subset=pid proc /proc && exec "$@"'
    own = [sys.executable, "-c", _BORN + _SHOW]
    command = ["unshare", "--mount", "sh", "-c", hidden, "sh", *own]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert abs(float(done.stdout)) < 1.0
