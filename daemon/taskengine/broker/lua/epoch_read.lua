-- What Redis says of whose it is; a key of another type says nothing.  KEYS: epoch.
-- Returns identity, generation, run_id sealed, token of a rebuild under way, this server's run_id ('' where missing).
local held = {}
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  held = redis.call('HMGET', KEYS[1], 'identity', 'generation', 'run_id', 'token')
end
local out = {}
for i = 1, 4 do out[i] = held[i] or '' end
out[5] = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
return out
