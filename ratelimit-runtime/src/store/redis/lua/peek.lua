-- Reads a limiter without changing it.
--
-- KEYS[1..3]  hash, counter, log: see hash.lua, meter.lua, log.lua
-- ARGV[1..9]  as for limiter.lua; ARGV[1] is one cost, that of a possible request
--
-- Returns what limiter.lua returns.
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN, NO_WINDOW = 1, 3, 4, 5, 6

local runs, config = read_costs(ARGV[1]), nil
local stored, whole = stored_config()
if whole then
  config = stored
elseif ARGV[6] == 'follow' or ARGV[6] == 'following' then
  return reply_of(UNKNOWN, 0, 0, now, NO_CONFIG, NOTHING, 0)
else
  config = read_rule({ rate = tonumber(ARGV[2]), per = tonumber(ARGV[3]) }, ARGV[4])
  config.debt, config.state = stored.debt, stored.state
end
local rate, per = config.rate, config.per

local function reply(kind, free, reset_after, more, moved)
  return reply_of(kind, free, reset_after, now, config, NOTHING, 0, more, moved)
end

if config.mode == '1' then return reply(OTHER_MODE, 0, 0) end
if lacks_window(config, now) then return reply(NO_WINDOW, 0, 0) end
if is_metered(config) then
  local meter = read_meter(config, now)
  if not meter then return reply(FOREIGN, 0, 0) end
  local answer =
    reply(COUNTED, meter.free(), meter.full_after(), more_after(meter), moved_by(meter))
  return append_meter_waits(answer, runs, meter)
end
local text = redis.call('GET', KEYS[2])
-- Acquire does not use the counter of another configuration either: see forget.lua.
if not whole and tonumber(text or nil) then text = nil end
local left = config.state and used_of(config.state, now)
if (text and not tonumber(text)) or (config.state and not left) then return reply(FOREIGN, 0, 0) end
if left then
  -- What acquire would write into the log, now.
  local all = left + config.debt
  left = math.min(all, rate)
  local debt, full = all - left, left > 0 and per or 0
  full = full + math.ceil(debt / math.max(1, rate)) * per
  local log = { struct.pack('<BI', 0, left), now }
  local more = more_than(rate - left, rate, per, now, debt, log)
  local answer = reply(COUNTED, rate - left - debt, full, more)
  return (append_waits(answer, runs, rate, rate - left, per, now, debt, log))
end
local entries = read_log()
if not entries then return reply(FOREIGN, 0, 0) end

local free, short, debt, dropped = integer(text), #entries < WALK, config.debt, 0
if debt > 0 and short and rate > 0 then
  debt, dropped = pay_with(entries, debt, rate, per, now)
  table.sort(entries, function(a, b) return a.score < b.score end)
end
local used, expired = 0, 0
for _, entry in ipairs(entries) do
  if entry.score <= now - per then
    expired = expired + entry.permits
  else
    used = used + entry.permits
  end
end
free = free and free + expired + dropped
-- What acquire would find out by counting, and the dates that it would correct.
local counts = short and (expired > 0 or (free or rate - used) < sum_of(runs, rate) + debt)
if counts or not free then
  free = math.min(free or rate - used, rate - used)
else
  free = math.min(rate, free)
end
if counts then
  for _, entry in ipairs(entries) do
    if entry.score > now + bucket_of(per) then entry.score = now end
  end
  table.sort(entries, function(a, b) return a.score < b.score end)
end
local log, newest = {}, nil
for _, entry in ipairs(entries) do
  if entry.score > now - per then
    log[#log + 1], log[#log + 2] = struct.pack('<BI', 0, entry.permits), entry.score
  end
  newest = entry.score
end
local full = full_after(short and newest or newest_score(), per, now) + math.ceil(debt / math.max(1, rate)) * per
local answer = reply(COUNTED, free - debt, full, more_than(free, rate, per, now, debt, log))
return (append_waits(answer, runs, rate, free, per, now, debt, log))
