-- Locks an event for its processing, if the execution still runs under the token. No row: the claim is lost.
-- $1 event id, $2 execution id, $3 claim token
-- The execution's own row is not locked here: its progress and its cursor are written while the body goes on.
select v.processed_at
from webhook_events v
where v.id = $1 and exists (select from task_executions e where e.id = $2 and e.claim_token = $3)
for no key update of v
