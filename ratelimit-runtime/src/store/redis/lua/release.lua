-- Releases permits: owed ones first, then the oldest, so that no window can hold too many.
--
-- KEYS[1..3]  hash, counter, log: see hash.lua, meter.lua, log.lua
-- ARGV[1]  integer  permits to release, at least 1
-- ARGV[9]  the windows of calendars: see window.lua
--
-- Returns { outcome, released, more }: outcome as named below; more is 1 if a long log was released
-- in part and the rest needs another call. If required windows were not sent, returns what
-- limiter.lua returns then.
local DONE, OTHER_MODE, FOREIGN, UNKNOWN, NO_WINDOW = 1, 3, 4, 5, 6

local wanted = tonumber(ARGV[1])
local config, known = stored_config()
if not known then return { UNKNOWN, 0, 0 } end
if config.mode == '1' then return { OTHER_MODE, 0, 0 } end
local rate, per = config.rate, config.per

local window = read_window(config.state)
if lacks_window(config, now) and not (window and is_in_force(window, config, now)) then
  return reply_of(NO_WINDOW, 0, 0, now, config, 0, 0)
end
if is_metered(config) then
  local meter, found = read_meter(config, now)
  if not meter then return { FOREIGN, 0, 0 } end
  local back = meter.give_back(wanted)
  store_meter(meter, config, back > 0 or found, found)
  return { DONE, back, 0 }
end
local text = read_counter(config, '', now)
if text == nil then return { FOREIGN, 0, 0 } end
local dropped = pay_as_freed(config, now)
local expired, released = over(per, now)
local used, whole = count(expired or 0)
if not (dropped and expired and used) then return { FOREIGN, 0, 0 } end
drop(expired)

local owed = math.min(wanted, config.debt)
store_debt(config, config.debt - owed)
local left = wanted - owed
for _, entry in ipairs(read_log()) do
  if left == 0 then break end
  local back = math.min(left, entry.permits)
  redis.call('ZREM', KEYS[3], entry.member)
  if back < entry.permits then
    redis.call('ZADD', KEYS[3], entry.score,
      string.sub(entry.member, 1, -5) .. struct.pack('<I', entry.permits - back))
  end
  left = left - back
end
local free = integer(text)
free = free and free + released + dropped
-- What the log lost counts as the newest; see sliding.lua.
local lost = whole and math.max(0, rate - used - (free or rate)) or 0
left = left - math.min(left, lost)
local back = wanted - owed - left
if whole then
  keep_counter(rate - used - lost + back)
elseif free then
  keep_counter(math.min(rate, free + back))
end
return { DONE, owed + back, (left > 0 and not whole) and 1 or 0 }
