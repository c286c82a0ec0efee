-- Carries usage over to a new configuration or another rule: every permit in use counts as if it
-- had been taken now.
--
-- KEYS[1]  hash    `state`: see meter.lua; `debt`: what a sliding window owes beyond its log
-- KEYS[2]  string  the counter of a sliding window
-- KEYS[3]  zset    the log

-- Returns the permits taken in a window, unless it is over, plus the debt. While something is owed, all
-- permits of a window are taken, so each window since this one paid as many.
local function used_of_window(window, now)
  local since = now - window.start - window.per
  if since < 0 then return window.used + owed_of(window, now) end
  return math.max(0, owed_of(window, now) - math.floor(since / window.per) * window.used)
end

-- Returns the permits that a state uses now, or nil if it is not a state.
local function used_of(text, now)
  local bucket, window, warm = read_bucket(text), read_window(text), read_warm(text)
  if bucket then
    local moves, spare = bucket.moves, 0
    if moves then spare = math.max(0, moves.spare_until - math.max(now, bucket.at)) * moves.spare_rate end
    return math.ceil(math.max(0, backlog_of(bucket, now) - spare) / bucket.per)
  end
  if warm then return math.ceil(pending_of(warm, now) / warm.per) end
  return window and used_of_window(window, now)
end

-- Returns for how long a state counts, ms.
local function lasts_for(text, now)
  local bucket, window, warm = read_bucket(text), read_window(text), read_warm(text)
  if warm then return cold_after(warm, now) end
  return bucket and lasts_of(bucket, now)
    or window and math.max(window.start + window.per, window.paid_by or 0) - now or 0
end

-- Returns the permits of the whole log that still count plus the debt, or nil if a member has an
-- unsupported format. While something is owed, each window since a member paid as many. The log is read
-- in steps, and only for another rule, which keeps no log. `log` replaces the stored one.
local function used_of_log(debt, per, now, log)
  local used, rank, most = debt, 0, debt > 0 and LONGEST or 1
  repeat
    local flat = log or redis.call('ZRANGE', KEYS[3], rank, rank + WALK - 1, 'WITHSCORES')
    for i = 1, #flat, 2 do
      local permits = permits_of(flat[i])
      if not permits then return nil end
      local windows = math.max(0, math.floor((now - tonumber(flat[i + 1])) / per))
      used = used + permits * (1 - math.min(windows, most))
    end
    rank = rank + WALK
  until log or #flat < WALK * 2
  return math.max(0, used)
end

-- Returns the usage of another configuration, in ticks. At any drain rate, the `last` permits are
-- left when the last reservation begins, as there would have been.
local function carried_ticks(used, lead, rate, per, most, last)
  local begun = lead > 0 and lead * rate + last * per or 0
  return math.min(math.max(used * per, begun), most + MOST_AHEAD)
end

-- Returns the moves of grants that continue under another configuration: all earlier grants have
-- moved out of the bucket.
local function moves_after(bucket, rate, per, most, now)
  local lasts = bucket and lasts_of(bucket, now) or 0
  if lasts <= 0 then return nil end
  local moves, lead = bucket.moves or no_moves(), lead_of(bucket, now)
  if lead > 0 then
    -- Assumes that as many permits are reserved as possible.
    local permits = math.ceil((reserved_of(moves, bucket.per, lead, now) + lead * bucket.rate) / bucket.per)
    moves.largest = math.min(math.max(0, permits * per - lead * rate), MOST_EXACT)
    moves.earlier, moves.later, moves.turns_at = 0, 0, now + lead
    moves.spare_rate = per == bucket.per and math.max(0, rate - bucket.rate) or 0
    moves.spare_until = moves.turns_at
  end
  add_move(moves, math.min(lasts * rate, most + MOST_AHEAD), now + lasts)
  moves.gaps = {}
  return moves
end

-- Returns a bucket from which `used` permits were just taken; it is cold if there were none.
local function carried_warm(config, used, lead, now, last)
  local most = config.rate * config.per
  local pending = carried_ticks(used, lead, config.rate, config.per, most, last)
  local cold = pending == 0 and threshold_of(config.rate, config.warm_up) * 2 or 0
  return warm_meter(config, pending, cold, now, 0, lead)
end

-- Returns the counter of a sliding window; false if it must be counted again, nil if it is not a
-- number. Usage of another rule becomes a member of the log, and the part above the rate becomes
-- debt.
local function read_counter(config, id, now)
  local text = redis.call('GET', KEYS[2])
  local used = config.state and used_of(config.state, now)
  if (text and not tonumber(text)) or (config.state and not used) then return nil end
  if not used then return text end
  redis.call('ZCARD', KEYS[3])
  redis.call('HDEL', KEYS[1], 'state')
  redis.call('UNLINK', KEYS[2])
  local all = used + config.debt
  used = math.min(all, config.rate, 4294967295)
  store_debt(config, all - used)
  if used > 0 then
    redis.call('ZADD', KEYS[3], now, struct.pack('<Bc0I', #id + 1, id .. '!', used))
  end
  return false
end
