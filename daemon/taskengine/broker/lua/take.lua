-- Moves these ids from a queue into its processing set, as reserve does with the first ones.
-- KEYS: epoch, queue, processing.  ARGV: generation, ids (one text).
-- Returns those that were still there; nil where the generation is not the one that Redis was rebuilt for.
if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[1] then return false end
local time = redis.call('TIME')
local at = time[1] * 1000000 + time[2]
local taken, add = {}, {}
for id in string.gmatch(ARGV[2], '%S+') do
  if redis.call('ZREM', KEYS[2], id) == 1 then
    taken[#taken + 1] = id
    add[#add + 1] = at
    add[#add + 1] = id
  end
end
if #add > 0 then redis.call('ZADD', KEYS[3], unpack(add)) end
return taken
