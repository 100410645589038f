-- Moves up to n ids from the queues, in their order, into their processing sets.
-- KEYS: epoch, then queue and processing in turn.  ARGV: generation, n, then the most that each queue may give.
-- Returns one list of ids a queue; nil where the generation is not the one that Redis was rebuilt for.
-- It pops before it adds: for want of memory Redis refuses a script's first write, not its second.
if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[1] then return false end
local time = redis.call('TIME')
local at = time[1] * 1000000 + time[2]
local left = tonumber(ARGV[2])
local out = {}
for q = 1, (#KEYS - 1) / 2 do
  local ids = {}
  local take = math.min(left, tonumber(ARGV[2 + q]))
  if take > 0 then
    local popped = redis.call('ZPOPMIN', KEYS[2 * q], take)
    if #popped > 0 then
      local add = {}
      for i = 1, #popped, 2 do
        ids[#ids + 1] = popped[i]
        add[#add + 1] = at
        add[#add + 1] = popped[i]
      end
      redis.call('ZADD', KEYS[2 * q + 1], unpack(add))
      left = left - #ids
    end
  end
  out[q] = ids
end
return out
