-- Charges a cost that is known only afterwards: takes the free permits, and records the rest as
-- debt that is paid before anything else is granted.
--
-- KEYS[1..3], ARGV[2..9]  of the limiter: see limiter.lua
-- ARGV[1]  `PERMITS/MAX_DEBT`: what to take, and the maximum total debt, `PERMITS/` for the capacity;
--          `PERMITS/MAX_DEBT/once` if a call with the same ARGV[7] may have been executed already
--
-- Returns the reply of limiter.lua to a later peek for one permit; then, if counted, { permits
-- taken, total debt now, written off }.

-- Bytes of an id, and the most of all ids. Redis stores a hash with a field of more than 64 bytes less
-- compactly, so more are kept only while charges follow each other within a minute: after an outage, all
-- processes may charge at the same time, and lose all replies.
local ID, FEW, MOST, MINUTE = 4, 32, 1020, 60

-- Returns whether this charge was made before, and records it. The field has the time of the last charge (s),
-- then the ids.
local function is_made()
  local made, second = redis.call('HGET', KEYS[1], 'charges') or '', math.floor(now / 1000)
  local last = #made >= ID and struct.unpack('<I', made) or second
  local ids, id = string.sub(made, ID + 1), string.sub(ARGV[7], 1, ID)
  if string.find(ids, id, 1, true) then return true end
  local most = second - last <= MINUTE and MOST or FEW
  redis.call('HSET', KEYS[1], 'charges', struct.pack('<I', second) .. string.sub(ids .. id, -most))
  return false
end

local permits, max_debt, once = string.match(ARGV[1], '^(%d+)/(%d*)/?(%l*)$')
permits, max_debt = tonumber(permits), tonumber(max_debt)
ARGV[1] = '1'

local own = own_config(ARGV)
if lacks_window(own, now) then return reply_of(NO_WINDOW, 0, 0, now, own, NOTHING, 0) end
local config, event = reconcile(own, now, stored_config())
if config and config.mode == '0' and lacks_window(config, now) then
  return reply_of(NO_WINDOW, 0, 0, now, config, NOTHING, 0)
end
local limiter = open(config, event, nil)
local meter = limiter.meter
if not meter then return commit(limiter) end
if once == 'once' and config.rate > 0 and is_made() then permits = 0 end
max_debt = config.rate > 0 and (max_debt or capacity_of(config)) or 0

local debt, taken = meter.debt(), math.min(permits, meter.room())
if taken > 0 then meter.take(taken) end
local owed = math.max(0, math.min(permits - taken, max_debt - debt,
  meter.most_owed and meter.most_owed() or permits))
if owed > 0 then meter.owe(owed) end
limiter.taken, limiter.free = taken + owed > 0, meter.free()
local reply = commit(limiter)
reply[#reply + 1] = taken
reply[#reply + 1] = debt + owed
reply[#reply + 1] = permits - taken - owed
return reply
