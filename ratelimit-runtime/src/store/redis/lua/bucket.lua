-- Counts a bucket that drains steadily: token_bucket and leaky_bucket.
--
-- KEYS[2]  string  `bucket EMPTY_AT/TICKS/RATE/PER`: the millisecond in which what
--                  was taken has come back, the ticks that are left then, and the
--                  numbers it was counted by
--
-- A tick is the rate'th part of a millisecond, in which one of them drains; a
-- permit is `per` ticks. So every number is whole, and below 2^53.

local function read_bucket(text)
  local empty_at, ticks, rate, per =
    string.match(text or '', '^bucket (%d+)/(%d+)/(%d+)/(%d+)$')
  return empty_at and {
    empty_at = tonumber(empty_at), ticks = tonumber(ticks),
    rate = tonumber(rate), per = math.max(1, tonumber(per)),
  }
end

-- The ticks that have not drained yet.
local function backlog_of(bucket, now)
  return math.max(0, (bucket.empty_at - now) * bucket.rate + bucket.ticks)
end

-- A bucket with a backlog, now. What a clock that stepped back makes of it beyond
-- the capacity is cut.
local function bucket_meter(config, backlog, now)
  local rate, per, capacity = config.rate, config.per, capacity_of(config)
  local most, spaced = capacity * per, config.algorithm == 'leaky_bucket'
  local meter = {
    capacity = capacity, spaced = spaced,
    ahead = math.max(0, math.ceil((backlog - most) / rate)),
  }
  backlog = math.min(backlog, most)

  function meter.free()
    if spaced then return backlog == 0 and capacity or 0 end
    return math.floor((most - backlog) / per)
  end

  function meter.take(permits) backlog = backlog + permits * per end

  function meter.give_back(permits)
    local used = math.ceil(backlog / per)
    backlog = math.max(0, backlog - permits * per)
    return math.min(permits, used)
  end

  function meter.wait(permits)
    local over = spaced and backlog or backlog + permits * per - most
    return math.max(0, math.ceil(over / rate))
  end

  function meter.full_after() return math.ceil(backlog / rate) end

  function meter.text()
    return backlog > 0 and 'bucket ' .. decimal(now + math.floor(backlog / rate)) .. '/'
      .. decimal(backlog % rate) .. '/' .. decimal(rate) .. '/' .. decimal(per)
  end

  return meter
end
