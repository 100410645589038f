-- Seals a rebuild, if its token and the server are still those that it began with.
-- KEYS: epoch.  ARGV: token, run_id, identity, generation, wake channel.  Returns 1, or 0: start over.
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or run_id ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'identity', ARGV[3], 'generation', ARGV[4], 'run_id', run_id)
redis.call('HDEL', KEYS[1], 'token')
redis.call('PUBLISH', ARGV[5], '')
return 1
