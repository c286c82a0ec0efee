-- Looks at a sliding window without touching it.
--
-- KEYS[1..3]  hash, counter, log: see config.lua and log.lua
-- ARGV[1..9]  as for acquire.lua; ARGV[1] is one cost, of what would be asked for
--
-- Returns what acquire.lua returns.
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN = 1, 3, 4, 5

local runs, rate, per = read_costs(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local mode = ARGV[4]
local fields = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type')
if integer(fields[1]) and integer(fields[2]) and fields[3] then
  rate, per, mode = integer(fields[1]), integer(fields[2]), fields[3]
elseif ARGV[8] == 'follow' or ARGV[8] == 'following' then
  return { UNKNOWN, 0, 0, now, 0, 0, 0, NOTHING, 0 }
end

local function reply(kind, free, reset_after)
  return { kind, math.max(0, free), reset_after, now, rate, per, tonumber(mode), NOTHING, 0 }
end

if mode == '1' then return reply(OTHER_MODE, 0, 0) end
local text = redis.call('GET', KEYS[2])
if text and not tonumber(text) then return reply(FOREIGN, 0, 0) end
local entries = read_log()
if not entries then return reply(FOREIGN, 0, 0) end

local used, expired, over = 0, 0, 0
for _, entry in ipairs(entries) do
  used = used + entry.permits
  if entry.score <= now - per then expired, over = expired + entry.permits, over + 1 end
end
local free, whole = integer(text), #entries < WALK
if not free or (whole and (expired > 0 or free < sum_of(runs, rate))) then
  -- What acquire would find out by counting.
  local counted = rate - used + expired
  free = free and math.min(free + expired, counted) or counted
else
  free = math.min(rate, free + expired)
end
local full = full_after(newest_score(), per, now)
return (append_waits(reply(COUNTED, free, full), runs, rate, free, per, now, over))
