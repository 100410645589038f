"""Every finding of the doctor's by its stable code: how bad it is, and the command that mends it.

`insight/problems` words what `status` tells, too; the codes are the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES: Final = (NOTE, WARNING, ERROR)

_FIX = "taskengine doctor --fix"
_JOURNAL = "journalctl -u taskengine --since -1h"


class Entry(NamedTuple):
    """How bad a finding is; the command that mends it, or shows more of it (None: none of ours)."""

    severity: str
    command: str | None


CATALOGUE: Final[dict[str, Entry]] = {
    # delivery
    "delivery.pending_without_message": Entry(ERROR, _FIX),
    "delivery.message_without_row": Entry(WARNING, _FIX),
    "delivery.processing_without_owner": Entry(WARNING, _FIX),
    "delivery.delayed_past_due": Entry(ERROR, _FIX),
    # Redis
    "redis.away": Entry(ERROR, "systemctl status valkey-server redis-server"),
    "redis.off": Entry(NOTE, None),
    "redis.foreign": Entry(ERROR, "taskengine config show"),
    "redis.forgetful": Entry(ERROR, "taskengine rebuild-delivery"),
    "redis.wrong_type": Entry(ERROR, _FIX),
    "redis.evicts": Entry(WARNING, "redis-cli config set maxmemory-policy noeviction"),
    "redis.memory": Entry(WARNING, "redis-cli info memory"),
    "redis.replica": Entry(ERROR, "redis-cli info replication"),
    "redis.bgsave": Entry(WARNING, "redis-cli info persistence"),
    "redis.policy_unknown": Entry(NOTE, None),
    # Postgres
    "postgres.version": Entry(ERROR, None),
    "postgres.read_only": Entry(ERROR, "psql -c 'show default_transaction_read_only'"),
    "postgres.fsync": Entry(ERROR, "psql -c 'alter system set fsync = on'"),
    "postgres.full_page_writes": Entry(ERROR, "psql -c 'alter system set full_page_writes = on'"),
    "postgres.synchronous_commit": Entry(
        ERROR, "psql -c 'alter system set synchronous_commit = on'"
    ),
    "postgres.async_replicas": Entry(NOTE, "psql -c 'table pg_stat_replication'"),
    "postgres.connections": Entry(WARNING, "psql -c 'show max_connections'"),
    "postgres.pooler": Entry(ERROR, "taskengine config show"),
    "postgres.bloat": Entry(WARNING, "psql -c 'vacuum (verbose, analyze) task_executions'"),
    "postgres.autovacuum": Entry(WARNING, "psql -c 'alter system set autovacuum = on'"),
    "postgres.xid_age": Entry(ERROR, "vacuumdb --all --freeze"),
    "migrations.pending": Entry(ERROR, "taskengine migrate up"),
    "migrations.changed": Entry(ERROR, "taskengine migrate status"),
    "clock.skew": Entry(WARNING, "timedatectl"),
    # daemons and their loops
    "daemon.none": Entry(ERROR, "systemctl start taskengine"),
    "daemon.silent": Entry(WARNING, _JOURNAL),
    "daemon.draining": Entry(NOTE, None),
    "daemon.direct": Entry(NOTE, None),
    "worker.left_running": Entry(ERROR, _FIX),
    "execution.past_deadline": Entry(WARNING, _FIX),
    "lease.stale": Entry(WARNING, _JOURNAL),
    "scheduler.silent": Entry(ERROR, _JOURNAL),
    # queues and jobs
    "queue.unlisted": Entry(ERROR, "taskengine config show"),
    "queue.unpolled": Entry(ERROR, "taskengine config show"),
    "queue.paused": Entry(NOTE, "taskengine queues resume NAME"),
    "key.unheld": Entry(WARNING, _FIX),
    "job.unknown": Entry(ERROR, "taskengine jobs diff"),
    "job.broken": Entry(ERROR, "taskengine jobs show NAME"),
    "job.differs": Entry(NOTE, "taskengine jobs diff"),
    "job.unregistered": Entry(NOTE, "systemctl restart taskengine"),
    "job.unloadable": Entry(ERROR, "taskengine jobs diff"),
    "schedule.ahead": Entry(ERROR, "taskengine jobs disable NAME && taskengine jobs enable NAME"),
    "schedule.late": Entry(ERROR, "taskengine schedules list"),
    "schedule.nobody_knows": Entry(ERROR, "taskengine schedules list"),
    # what failed, and whether anybody was told
    "webhook.stranded": Entry(WARNING, "taskengine webhooks reprocess"),
    "notice.undelivered": Entry(WARNING, "taskengine executions show ID"),
    "notice.unreported": Entry(
        WARNING, 'taskengine dispatch taskengine.notify-failure --payload \'{"job": "NAME"}\''
    ),
    "execution.quarantined": Entry(WARNING, "taskengine why ID"),
    # the doctor itself
    "doctor.blind": Entry(WARNING, None),
}
