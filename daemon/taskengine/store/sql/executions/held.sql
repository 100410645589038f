-- The worker's beat over its claims: which of the (id, token) pairs are no longer its own or asked to abort,
-- and which rows run under it that it does not hold.
-- $1 worker, $2 ids, $3 tokens, $4 ids known (held or ended here but not yet settled)
select u.id, u.token, e.claim_token is distinct from u.token as lost,
  e.abort_requested_at is not null as abort, false as stray
from unnest($2::bigint[], $3::bigint[]) as u(id, token)
left join task_executions e on e.id = u.id
where e.claim_token is distinct from u.token or e.abort_requested_at is not null
union all
select e.id, e.claim_token, false, false, true
from task_executions e
where e.worker_id = $1 and e.state = 'running' and not (e.id = any($4::bigint[]))
