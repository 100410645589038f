-- Drops keys that hold something else than what we keep there.
-- KEYS: keys of ours.  ARGV: the type of each.  Returns the number and the type found of each key dropped, in turn.
local out = {}
for i = 1, #KEYS do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= ARGV[i] then
    redis.call('DEL', KEYS[i])
    out[#out + 1] = i
    out[#out + 1] = found
  end
end
return out
