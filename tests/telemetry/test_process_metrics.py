"""The process as /proc/self tells it, where nothing else of /proc can be seen."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from taskengine.telemetry.metrics.process import ProcessMetrics

USUAL = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
}


def collect(collector: ProcessMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(collector)
    return {s.name: s.value for family in registry.collect() for s in family.samples}


def test_the_usual_names_and_no_file_beside_those_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Path] = []
    text = Path.read_text

    def noted(path: Path) -> str:
        read.append(path)
        return text(path)

    monkeypatch.setattr(Path, "read_text", noted)
    assert set(collect(ProcessMetrics(time.time))) == USUAL
    assert {*read} == {Path("/proc/self/stat")}


def test_the_figures_are_those_of_this_process() -> None:
    collector = ProcessMetrics(time.time)
    before = collect(collector)
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    held = bytearray(os.urandom(1 << 20) * 64)
    while time.process_time() < before["process_cpu_seconds_total"] + 0.1:
        pass
    after = collect(collector)
    for each in opened:
        os.close(each)
    assert after["process_open_fds"] == before["process_open_fds"] + 5
    grown = after["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
    assert len(held) * 0.9 < grown < len(held) * 3
    assert after["process_cpu_seconds_total"] > before["process_cpu_seconds_total"]
    assert after["process_start_time_seconds"] == before["process_start_time_seconds"]


def test_the_start_is_that_of_the_kernel(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    begun = round((time.clock_gettime(time.CLOCK_BOOTTIME) - 90.0) * ticks)
    fields = ["S", *["0"] * 18, str(begun), "4096", "3"]
    (tmp_path / "stat").write_text(f"7 (a) name) {' '.join(fields)}")
    found = collect(ProcessMetrics(lambda: 1_000_000.0, tmp_path))
    assert found["process_start_time_seconds"] == pytest.approx(1_000_000.0 - 90.0, abs=5.0)
    assert found["process_resident_memory_bytes"] == 3 * os.sysconf("SC_PAGE_SIZE")
    assert "process_open_fds" not in found, "there is no folder fd"


def test_no_proc_at_all_breaks_no_scrape(tmp_path: Path) -> None:
    assert set(collect(ProcessMetrics(time.time, tmp_path / "none"))) == {"process_max_fds"}
