-- Looks at a limiter without touching it.
--
-- KEYS[1..3]  hash, counter or another rule's state, log: see hash.lua, meter.lua, log.lua
-- ARGV[1..11]  as for limiter.lua; ARGV[1] is one cost, of what would be asked for
--
-- Returns what limiter.lua returns.
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN, NO_WINDOW = 1, 3, 4, 5, 6

local runs, config = read_costs(ARGV[1]), nil
local stored, whole = stored_config()
if whole then
  config = stored
elseif ARGV[8] == 'follow' or ARGV[8] == 'following' then
  return reply_of(UNKNOWN, 0, 0, now, NO_CONFIG, NOTHING, 0)
else
  config = read_rule({ rate = tonumber(ARGV[2]), per = tonumber(ARGV[3]) }, ARGV[4])
end
local rate, per = config.rate, config.per

local function reply(kind, free, reset_after, more)
  return reply_of(kind, free, reset_after, now, config, NOTHING, 0, more)
end

if config.mode == '1' then return reply(OTHER_MODE, 0, 0) end
if lacks_window(config, now) then return reply(NO_WINDOW, 0, 0) end
local text = redis.call('GET', KEYS[2])
if is_metered(config, text) then
  local meter = read_meter(config, text, now)
  if not meter then return reply(FOREIGN, 0, 0) end
  local answer = reply(COUNTED, meter.free(), meter.full_after(), more_after(meter))
  return append_meter_waits(answer, runs, meter)
end
local left = used_of(text, now)
if left then
  -- What acquire would write into the log, now.
  local all = left + (config.debt or 0)
  left = math.min(all, rate)
  local debt, full = all - left, left > 0 and per or 0
  full = full + math.ceil(debt / math.max(1, rate)) * per
  local more = more_than(rate - left, rate, per, now, 0, debt)
  local answer = reply(COUNTED, rate - left - debt, full, more)
  return (append_waits(answer, runs, rate, rate - left, per, now, 0, debt))
end
if text and not tonumber(text) then return reply(FOREIGN, 0, 0) end
local entries = read_log()
if not entries then return reply(FOREIGN, 0, 0) end

local used, expired, over, debt = 0, 0, 0, config.debt or 0
for _, entry in ipairs(entries) do
  used = used + entry.permits
  if entry.score <= now - per then expired, over = expired + entry.permits, over + 1 end
end
local free, short = integer(text), #entries < WALK
if not free or (short and (expired > 0 or free < sum_of(runs, rate) + debt)) then
  -- What acquire would find out by counting.
  local counted = rate - used + expired
  free = free and math.min(free + expired, counted) or counted
else
  free = math.min(rate, free + expired)
end
local full = full_after(newest_score(), per, now) + math.ceil(debt / math.max(1, rate)) * per
local answer = reply(COUNTED, free - debt, full, more_than(free, rate, per, now, over, debt))
return (append_waits(answer, runs, rate, free, per, now, over, debt))
