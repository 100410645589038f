"""What is counted, and how it is shown to Prometheus: the one home of prometheus_client.

Guarantees: one registry per `Metrics`; the number of series is bounded whatever happens (labels are
listed queues, known tasks, known sources and closed lists; anything else is "other"); the series of
what is known exist at 0 from the start; a scrape reads memory and /proc/self only. The label is
`task`, never `job`, which would collide with the scrape's own. In OpenMetrics a duration's bucket
names an execution that fell into it.
"""

from taskengine.telemetry.metrics.counting import Metrics
from taskengine.telemetry.metrics.gauges import Gauges
from taskengine.telemetry.metrics.standing import Facts

__all__ = ["Facts", "Gauges", "Metrics"]
