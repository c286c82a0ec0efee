-- The interface of the rules that know how much is used, but not by which call or when: all except
-- the sliding window.
--
-- KEYS[1]  hash    the configuration, and the `state`: bytes, with the numbers that are needed to
--                  read them, so that any other configuration can interpret them
-- KEYS[2]  string  the counter that a sliding window leaves behind
-- KEYS[3]  zset    the log, likewise

-- Returns whether a limiter is counted by a meter. At a rate of 0, the state of a meter is kept for
-- the next configuration.
local function is_metered(config)
  return config.algorithm or (config.rate == 0 and config.state)
end

-- A meter that admits no call and reads nothing.
local function closed_meter()
  local function nothing() return 0 end
  return {
    capacity = 0, ahead = 0, free = nothing, full_after = nothing, give_back = nothing,
    room = nothing, debt = nothing, closed = true,
  }
end

-- Returns the meter of a limiter, and whether it found other usage than its own, which counts as if
-- taken now. Nil if the state has an unsupported format. `log` replaces the stored one.
local function read_meter(config, now, log)
  if config.algorithm and not ALGORITHMS[config.algorithm] then return nil end
  if config.rate == 0 then return closed_meter(), false end
  local text = config.state
  local bucket, window, warm = read_bucket(text), read_window(text), read_warm(text)
  if text and not (bucket or window or warm) then return nil end
  local warms_up = config.warm_up > 0
  if warm and fits_warm(config, warm) then
    local ahead = math.max(0, warm.at - now)
    local pending, stored = pending_of(warm, now), stored_of(warm, now)
    return warm_meter(config, pending, stored, now, ahead, lead_of(warm, now)), false
  end
  local drains, used, found = config.algorithm ~= 'fixed_window', 0, true
  if drains and bucket and not warms_up and bucket.rate == config.rate and bucket.per == config.per then
    local ahead = math.max(0, bucket.at - now)
    local backlog, lead = backlog_of(bucket, now), lead_of(bucket, now)
    return bucket_meter(config, backlog, now, ahead, lead, bucket.moves), false
  elseif not drains and window and window.calendar == config.calendar
    and (config.calendar or window.per == config.per) then
    local meter = window_meter(config, window, now)
    return meter, meter.paid > 0
  elseif bucket or window or warm then
    used = used_of(text, now) + config.debt
  else
    used, found = config.debt, redis.call('GET', KEYS[2])
    if found and not tonumber(found) then return nil end
    if log or redis.call('ZCARD', KEYS[3]) > 0 then
      used, found = used_of_log(used, config.per, now, log), true
    end
    if not used then return nil end
  end
  found = found or config.debt > 0
  local drained = bucket or warm
  local lead = drained and lead_of(drained, now) or 0
  local last = 1
  if lead > 0 then
    local left = (bucket and backlog_of(bucket, now) or pending_of(warm, now)) - lead * drained.rate
    last = math.max(1, math.ceil(left / drained.per))
  end
  if warms_up then return carried_warm(config, used, lead, now, last), found end
  if drains then
    local most = capacity_of(config) * config.per
    local backlog = carried_ticks(used, lead, config.rate, config.per, most, last)
    local moves = moves_after(bucket, config.rate, config.per, most, now)
    return bucket_meter(config, backlog, now, 0, lead, moves), found
  end
  -- Usage beyond the window becomes debt.
  local start, length = window_at(config, now)
  local taken = math.min(used, config.rate)
  return window_meter(config, { start = start, used = taken, per = length, calendar = config.calendar,
    debt = used - taken, paid_by = LONGEST }, now), found
end

-- Lets an unused hash expire, but not before a state that counts for `lasts` ms: a quarter later,
-- so that few calls need to renew the expiry; see steady.lua.
local function renew(config, lasts)
  if config.keep_alive == 0 then return end
  local idle = math.max(config.keep_alive, lasts + 1)
  redis.call('PEXPIRE', KEYS[1], math.min(idle + math.floor(idle / 4), LONGEST))
end

-- Writes the state if it changed, and renews the keep-alive if it `renews` it: what grants nothing
-- leaves it. Deletes what a previous sliding window left.
local function store_meter(meter, config, changed, renews)
  if renews or config.renews then renew(config, (meter.kept_for or meter.full_after)()) end
  if not changed then return end
  if not config.state then redis.call('UNLINK', KEYS[2], KEYS[3]) end
  store_debt(config, 0)
  local text = meter.text()
  if text then
    redis.call('HSET', KEYS[1], 'state', text)
  elseif config.state then
    redis.call('HDEL', KEYS[1], 'state')
  end
  config.state = text
end

-- Returns how far grants moved so far, in ticks.
local function moved_by(meter)
  return meter.moved and meter.moved() or 0
end

-- Returns the milliseconds until more permits are free than now; 0 if all are free.
local function more_after(meter)
  local free = math.max(0, meter.free())
  return free < meter.capacity and meter.wait(free + 1) or 0
end

-- Appends the milliseconds until each of the different costs could be granted again.
local function append_meter_waits(reply, runs, meter)
  local appended = {}
  for _, run in ipairs(runs) do
    if not appended[run.asked] then
      appended[run.asked] = true
      reply[#reply + 1] = run.asked <= meter.capacity and countable(meter.wait(run.asked)) or 0
    end
  end
  return reply
end
