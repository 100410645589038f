-- The event that is here already under this name, whether its body is the same, and its waiting executions.
-- $1 source, $2 event id, $3 SHA-256 of the body
select v.id, v.body_sha256 = $3 as same_body, e.id as execution_id, e.queue,
  (extract(epoch from e.run_at) * 1000000)::bigint as score, e.run_at <= now() as due
from webhook_events v
left join task_executions e on e.subject = 'webhook:' || v.id and e.state = 'pending'
where v.source = $1 and v.event_id = $2
order by e.id
