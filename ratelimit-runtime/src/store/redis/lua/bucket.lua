-- Counts a bucket that drains steadily: token_bucket and leaky_bucket.
--
-- KEYS[2]  string  `bucket EMPTY_AT/TICKS/RATE/PER/AT`: the millisecond in which
--                  what was taken has come back, the ticks that are left then, the
--                  numbers it was counted by, and when it was written; behind it
--                  `/LAST`, when the last reservation begins, if that is to come
--
-- A tick is the rate'th part of a millisecond, in which one of them drains; a
-- permit is `per` ticks. So every number is whole, and below 2^53: a bucket holds
-- 2^52 ticks at the most, and what is reserved or owed beyond is 2^51 more.

-- Numbers that no limiter writes are not trusted.
local function read_bucket(text)
  local empty_at, ticks, rate, per, at, last =
    string.match(text or '', '^bucket (%d+)/(%d+)/(%d+)/(%d+)/(%d+)/?(%d*)$')
  local bucket = empty_at and {
    empty_at = tonumber(empty_at), ticks = tonumber(ticks), rate = tonumber(rate),
    per = math.max(1, tonumber(per)), at = tonumber(at), last = tonumber(last) or 0,
  }
  return bucket and are_exact(bucket)
    and (bucket.empty_at - bucket.at) * bucket.rate + bucket.ticks <= MOST_EXACT and bucket or nil
end

-- The ticks that have not drained yet. No time has passed for a clock that stepped
-- back.
local function backlog_of(bucket, now)
  return math.max(0, (bucket.empty_at - math.max(now, bucket.at)) * bucket.rate + bucket.ticks)
end

-- A bucket with a backlog, now, which was written so far in the future, and whose last
-- reservation begins after `lead` ms.
local function bucket_meter(config, backlog, now, ahead, lead)
  local rate, per, capacity = config.rate, config.per, capacity_of(config)
  local most, spaced = capacity * per, config.algorithm == 'leaky_bucket'
  local meter = { capacity = capacity, spaced = spaced, ahead = ahead }

  function meter.free()
    if spaced then return backlog == 0 and capacity or 0 end
    return math.max(0, math.floor((most - backlog) / per))
  end

  function meter.take(permits) backlog = backlog + permits * per end

  -- Takes ticks from the end. The reservation before begins with the last permit that
  -- is left, or before.
  local function shorten(ticks)
    backlog = math.max(0, backlog - ticks)
    lead = math.min(lead, math.max(0, math.ceil((backlog - (spaced and per or most)) / rate)))
  end

  function meter.give_back_grant(grant, same)
    local held, last = held_by(grant, same, backlog, rate, per, spaced, now + ahead)
    if last then shorten(held) else backlog = backlog - held end
    return math.ceil(held / per)
  end

  can_owe(meter, function() return backlog, lead end, most, rate, per)

  function meter.promise(wait) lead = math.max(lead, wait) end

  -- Nothing while slots are reserved one after the other: two callers would get one.
  function meter.give_back(permits)
    if spaced and lead > 0 then return 0 end
    local used = math.ceil(backlog / per)
    backlog = math.max(0, backlog - permits * per)
    return math.min(permits, used)
  end

  function meter.wait(permits)
    -- In this order, so that no number on the way is above 2^53.
    local over = spaced and backlog or backlog - (most - permits * per)
    return math.max(0, math.ceil(over / rate))
  end

  function meter.full_after() return math.ceil(backlog / rate) end

  function meter.text()
    return backlog > 0 and 'bucket ' .. decimal(now + math.floor(backlog / rate)) .. '/'
      .. decimal(backlog % rate) .. '/' .. decimal(rate) .. '/' .. decimal(per) .. '/' .. decimal(now)
      .. (lead > 0 and '/' .. decimal(now + lead) or '')
  end

  return meter
end
