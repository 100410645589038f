-- Moves what is due from the delayed set to the queue.
-- KEYS: delayed, queue.  ARGV: now (µs), n, wake channel, queue name.
-- Returns how many moved, and the time of the next one ('' if none is left).
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
if #due > 0 then
  local empty = redis.call('EXISTS', KEYS[2]) == 0
  local add, ids = {}, {}
  for i = 1, #due, 2 do
    add[#add + 1] = due[i + 1]
    add[#add + 1] = due[i]
    ids[#ids + 1] = due[i]
  end
  redis.call('ZADD', KEYS[2], 'NX', unpack(add))
  redis.call('ZREM', KEYS[1], unpack(ids))
  if empty then redis.call('PUBLISH', ARGV[3], ARGV[4]) end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {#due / 2, first[2] or ''}
