"""What the process costs, from /proc/self alone.

The library's own collector reads /proc/stat for the time of the boot and shows nothing where that
is hidden, as `ProcSubset=pid` does in our unit. Guarantees: the names are the usual `process_*`; a
file that cannot be read leaves its own metrics out and breaks no scrape.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessMetrics(Collector):
    """CPU, memory, descriptors and the start of this process. `now`: seconds since the epoch."""

    def __init__(self, now: Callable[[], float], proc: Path = Path("/proc/self")) -> None:
        self._proc = proc
        self._started = self._start(now())

    def collect(self) -> Iterator[Metric]:
        """Read anew at each scrape: a few µs."""
        if self._started is not None:
            text = "When the process started, in seconds since 1970."
            yield GaugeMetricFamily("process_start_time_seconds", text, self._started)
        yield from self._of_stat()
        yield from self._of_descriptors()

    def _of_stat(self) -> Iterator[Metric]:
        stat = self._stat()
        if stat is None:
            return
        cpu = (int(stat[11]) + int(stat[12])) / _TICKS
        yield CounterMetricFamily("process_cpu_seconds", "CPU time used, user and system.", cpu)
        yield GaugeMetricFamily("process_virtual_memory_bytes", "Virtual memory.", float(stat[20]))
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory.", int(stat[21]) * _PAGE
        )

    def _of_descriptors(self) -> Iterator[Metric]:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield GaugeMetricFamily("process_max_fds", "Descriptors allowed.", most)
        try:
            count = sum(1 for _ in (self._proc / "fd").iterdir())
        except OSError:
            return
        yield GaugeMetricFamily("process_open_fds", "Descriptors that are open.", count)

    def _start(self, now: float) -> float | None:
        """The kernel says it in ticks since the boot, and so does the clock of the boot."""
        stat = self._stat()
        if stat is None:
            return None
        return now - (time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[19]) / _TICKS)

    def _stat(self) -> list[str] | None:
        """The fields after the name, which may hold anything; the first one is the state."""
        try:
            return (self._proc / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return None
