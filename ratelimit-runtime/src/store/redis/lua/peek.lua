-- Looks at a sliding window without touching it.
--
-- KEYS[1..3]  hash, counter, log: see config.lua and log.lua
-- ARGV[1..9]  as for acquire.lua; ARGV[1] is what would be asked for
--
-- Returns what acquire.lua returns.
local REFUSED, GRANTED, TOO_MANY, OTHER_MODE, FOREIGN, UNKNOWN = 0, 1, 2, 3, 4, 5

local now = server_time(ARGV[10])
local permits, rate, per = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local mode = ARGV[4]
local fields = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type')
if integer(fields[1]) and integer(fields[2]) and fields[3] then
  rate, per, mode = integer(fields[1]), integer(fields[2]), fields[3]
elseif ARGV[8] == 'follow' or ARGV[8] == 'following' then
  return { UNKNOWN, 0, 0, 0, now, 0, 0, 0, NOTHING, 0 }
end

local function reply(outcome, free, retry_after, reset_after)
  return { outcome, math.max(0, free), retry_after, reset_after, now,
    rate, per, tonumber(mode), NOTHING, 0 }
end

if mode == '1' then return reply(OTHER_MODE, 0, 0, 0) end
if permits > rate then return reply(TOO_MANY, rate, 0, 0) end
local text = redis.call('GET', KEYS[2])
if text and not tonumber(text) then return reply(FOREIGN, 0, 0, 0) end
local entries, used, whole = read_log(WALK)
if not entries then return reply(FOREIGN, 0, 0, 0) end

local expired, live = 0, {}
for _, entry in ipairs(entries) do
  if entry.score <= now - per then expired = expired + entry.permits else live[#live + 1] = entry end
end
local free = integer(text)
if not free or (whole and (expired > 0 or free < permits)) then
  -- What acquire would find out by counting.
  local counted = rate - used + expired
  free = free and math.min(free + expired, counted) or counted
else
  free = math.min(rate, free + expired)
end
if free >= permits then return reply(GRANTED, free, 0, full_after(per, now)) end
return reply(REFUSED, free, wait_for(live, permits - free, per, now), full_after(per, now))
