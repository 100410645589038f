-- Begins a rebuild: our token in, the generation out (so that nothing is reserved meanwhile), processing emptied.
-- KEYS: epoch, then the processing sets.  ARGV: token.  Returns this server's run_id.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
redis.call('HDEL', KEYS[1], 'generation')
redis.call('HSET', KEYS[1], 'token', ARGV[1])
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
