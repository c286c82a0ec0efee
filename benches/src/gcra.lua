-- A bare GCRA in one key, which is what ours are held against: it keeps no configuration.
--
-- KEYS[1]  string   when all is free again, ms
-- ARGV[1]  number   ms for each permit
-- ARGV[2]  integer  permits at once
-- ARGV[3]  integer  permits to take
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full_at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now))
local after = full_at + cost * interval
local allowed_at = after - burst * interval
if now < allowed_at then
  local free = math.floor((burst * interval - (full_at - now)) / interval)
  return { 0, free, math.ceil(allowed_at - now), math.ceil(full_at - now) }
end
redis.call('SET', KEYS[1], string.format('%.3f', after), 'PX', math.ceil(after - now))
return { 1, math.floor((now - allowed_at) / interval), 0, math.ceil(after - now) }
