-- Looks at the ids that wait in queues, each from where the last look ended; changes nothing.
-- KEYS: queues.  ARGV: n, then for each queue the last id seen and its score ("" and "": from the start).
-- Returns for each queue ids and scores in turn. Where the last id has left, it goes on with the first of its score.
local out = {}
for q = 1, #KEYS do
  local from = 0
  if ARGV[2 * q] ~= '' then
    local rank = redis.call('ZRANK', KEYS[q], ARGV[2 * q])
    from = rank and rank + 1 or redis.call('ZCOUNT', KEYS[q], '-inf', '(' .. ARGV[2 * q + 1])
  end
  out[q] = redis.call('ZRANGE', KEYS[q], from, from + ARGV[1] - 1, 'WITHSCORES')
end
return out
