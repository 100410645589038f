-- Which delayed sets hold something due, and when the next one of all is.
-- KEYS: delayed sets.  ARGV: now (µs).  Returns the time of the first ('' if none is left), then one flag a set.
local out, first = {}, nil
for i = 1, #KEYS do
  local entry = redis.call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')
  local at = entry[2] and tonumber(entry[2])
  out[i + 1] = at and at <= tonumber(ARGV[1]) and 1 or 0
  if at and (not first or at < first) then first = at end
end
out[1] = first and string.format('%.0f', first) or ''
return out
