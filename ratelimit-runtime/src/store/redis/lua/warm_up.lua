-- Counts a token bucket that warms up: a permit from the upper half of the stored ones costs up to
-- three times its time, which the next caller waits for.
--
-- A state is the letter `w`, then numbers as in bucket.lua: FREE_AT, the millisecond in which the
-- next caller may proceed; TICKS, those left then; STORED, the stored ticks; RATE, PER and WARM_UP
-- (ms) of the configuration it was counted with; AT and LAST.
--
-- Ticks are those of bucket.lua. A warm-up has at most 2^40 of them.

local WARM = { 'free_at', 'ticks', 'stored', 'rate', 'per', 'warm_up', 'at', 'last' }

local function read_warm(text)
  if not text or string.byte(text) ~= 119 then return nil end
  local warm, behind = unpacked(text, 2, WARM)
  return warm and behind > #text and warm.per > 0 and warm.rate > 0 and warm.rate * warm.warm_up <= 2 ^ 41
    and (warm.free_at - warm.at) * warm.rate + warm.ticks <= MOST_EXACT and warm or nil
end

-- Returns whether a bucket that warms up was counted with this configuration.
local function fits_warm(config, warm)
  return config.rate == warm.rate and config.per == warm.per and config.warm_up == warm.warm_up
end

-- Returns half of what can be stored; below it, a permit costs its time.
local function threshold_of(rate, warm_up)
  return math.max(1, math.floor(rate * warm_up / 2))
end

-- Returns the ticks until the next caller may proceed. If the clock stepped back, no time has passed.
local function pending_of(warm, now)
  return math.max(0, (warm.free_at - math.max(now, warm.at)) * warm.rate + warm.ticks)
end

-- Returns the stored ticks: one more for each idle one.
local function stored_of(warm, now)
  local idle = (math.max(now, warm.at) - warm.free_at) * warm.rate - warm.ticks
  return math.min(warm.stored + math.max(0, idle), threshold_of(warm.rate, warm.warm_up) * 2)
end

-- Returns the ms until it is as cold as a new one.
local function cold_after(warm, now)
  local left = threshold_of(warm.rate, warm.warm_up) * 2 - stored_of(warm, now)
  return math.ceil((pending_of(warm, now) + left) / warm.rate)
end

-- above * above / threshold, rounded down, for above <= threshold: 13 bits at a time, so that no
-- intermediate number exceeds 2^53.
local function squared(above, threshold)
  local quotient, rest = 0, 0
  for shift = 39, 0, -13 do
    local digit = math.floor(above / 2 ^ shift) % 8192
    local part = rest * 8192 + digit * above
    rest = part % threshold
    quotient = quotient * 8192 + (part - rest) / threshold
  end
  return quotient
end

-- Opens a bucket that warms up, at `now`. It was written `ahead` ms in the future, and its last
-- reservation begins after `lead` ms.
local function warm_meter(config, pending, stored, now, ahead, lead)
  local rate, per, capacity = config.rate, config.per, config.rate
  local threshold = threshold_of(rate, config.warm_up)
  local meter = { capacity = capacity, spaced = true, ahead = ahead }

  -- Returns how long the next caller waits after this many permits, in ticks.
  local function cost_of(permits, from)
    local above = math.max(0, from - threshold)
    local left = math.max(0, from - permits * per - threshold)
    return permits * per + squared(above, threshold) - squared(left, threshold)
  end

  function meter.free() return pending == 0 and capacity or 0 end

  function meter.take(permits)
    pending = pending + cost_of(permits, stored)
    stored = math.max(0, stored - permits * per)
  end

  function meter.give_back_grant(grant)
    local held = held_by(grant, nil, pending, rate, per, true, now + ahead)
    if held > 0 then pending, lead = pending - held, lead_before(grant, lead, now + ahead) end
    return math.ceil(held / per)
  end

  can_owe(meter, function() return pending, lead end, rate * per, rate, per)

  function meter.promise(_, wait)
    local before = lead
    lead = math.max(lead, wait)
    return before
  end

  -- Returns 0 while slots are reserved: two callers would get the same slot.
  function meter.give_back(permits)
    if lead > 0 then return 0 end
    local used = math.ceil(pending / per)
    pending = math.max(0, pending - permits * per)
    return math.min(permits, used)
  end

  function meter.wait() return math.ceil(pending / rate) end
  function meter.full_after() return math.ceil(pending / rate) end
  function meter.kept_for() return math.ceil((pending + threshold * 2 - stored) / rate) end

  function meter.text()
    if pending == 0 and stored == threshold * 2 then return nil end
    local warm = { free_at = now + math.floor(pending / rate), ticks = pending % rate, stored = stored,
      rate = rate, per = per, warm_up = config.warm_up, at = now, last = lead > 0 and now + lead or 0 }
    return 'w' .. packed(warm, WARM)
  end

  return meter
end
