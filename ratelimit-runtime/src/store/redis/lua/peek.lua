-- Reads a limiter without changing it.
--
-- KEYS[1..3]  hash, counter, log: see hash.lua, meter.lua, log.lua
-- ARGV[1..9]  as for limiter.lua; ARGV[1] is one cost, that of a possible request
--
-- Returns what limiter.lua returns to a request now.
local COUNTED, OTHER_MODE, FOREIGN, UNKNOWN, NO_WINDOW = 1, 3, 4, 5, 6

-- Debt is paid under a replaced configuration first, which then forgets what is over. Returns the log
-- as that leaves it, or nil if that is as it is stored.
local function pay_replaced(own, stored)
  local window = paying_window(stored, now)
  if window then own.state = window.text() end
  if own.debt == 0 or stored.rate == 0 or stored.algorithm or stored.state then return nil end
  local entries, left = read_log(), {}
  if not entries or #entries == WALK then return nil end
  own.debt = pay_with(entries, own.debt, stored.rate, stored.per, now)
  for _, entry in ipairs(entries) do
    if entry.score > now - stored.per then left[#left + 1] = entry end
  end
  table.sort(left, function(a, b) return a.score < b.score end)
  return left
end

-- Returns entries as the server would.
local function flat_of(entries)
  local flat = {}
  for _, entry in ipairs(entries) do
    flat[#flat + 1], flat[#flat + 2] = struct.pack('<BI', 0, entry.permits), entry.score
  end
  return flat
end

local runs, own = read_costs(ARGV[1]), own_config(ARGV)
local stored, whole = stored_config()
if own.follows and not whole then return reply_of(UNKNOWN, 0, 0, now, NO_CONFIG, NOTHING, 0) end
local event = whole and judge(own, now, stored).event or CREATED
local is_own = event == CREATED or event == RESET or event == CARRIED
local config = is_own and own or stored
if event == CREATED or event == CARRIED then own.debt, own.state = stored.debt, stored.state end
local paid = event == CARRIED and pay_replaced(own, stored)
local rate, per = config.rate, config.per

local function reply(kind, free, reset_after, more, moved)
  -- Usage that a process counts is forgotten with a reset.
  local outcome = kind == OTHER_MODE and event or NOTHING
  return reply_of(kind, free, reset_after, now, config, outcome, 0, more, moved)
end

if config.mode == '1' then return reply(OTHER_MODE, 0, 0) end
if lacks_window(config, now) then return reply(NO_WINDOW, 0, 0) end
if event == RESET then
  local answer = reply(COUNTED, capacity_of(config), 0)
  answer[#answer + 1] = 0
  return answer
end
if is_metered(config) then
  local meter = read_meter(config, now, paid and flat_of(paid))
  if not meter then return reply(FOREIGN, 0, 0) end
  local answer =
    reply(COUNTED, meter.free(), meter.full_after(), more_after(meter), moved_by(meter))
  return append_meter_waits(answer, runs, meter)
end
local text = redis.call('GET', KEYS[2])
-- Acquire does not use the counter of another configuration either: see forget.lua.
if is_own and tonumber(text or nil) then text = whole and moved_counter(config, stored) end
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
local entries = paid or read_log()
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
local doubtful = not free or free > rate or expired > 0 or event ~= NOTHING
  or ARGV[6] == 'follow' or own.rate ~= rate or own.per ~= per
local wanted = sum_of(runs, rate) + debt
local counts = short and (doubtful or free < wanted)
if short and event == CARRIED then
  free = rate - used
elseif counts or not free then
  free = math.min(free or rate - used, rate - used)
else
  free = math.min(rate, free)
end
if counts and (expired > 0 or free < wanted) then
  for _, entry in ipairs(entries) do
    if entry.score > now + bucket_of(per) then entry.score = now end
  end
  table.sort(entries, function(a, b) return a.score < b.score end)
end
local current, newest = {}, nil
for _, entry in ipairs(entries) do
  if entry.score > now - per then current[#current + 1] = entry end
  newest = entry.score
end
if not short then newest = newest_score() end
local log = flat_of(current)
local full = full_after(newest, per, now) + math.ceil(debt / math.max(1, rate)) * per
local answer = reply(COUNTED, free - debt, full, more_than(free, rate, per, now, debt, log))
return (append_waits(answer, runs, rate, free, per, now, debt, log))
