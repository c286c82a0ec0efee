-- Takes permits from a bucket that drains steadily, and returns them; see bucket.lua, moves.lua.

-- Opens a bucket with this backlog at `now`. It was written `ahead` ms in the future, its last
-- reservation begins after `lead` ms, and its grants moved by `moves`.
local function bucket_meter(config, backlog, now, ahead, lead, moves)
  local rate, per, capacity = config.rate, config.per, capacity_of(config)
  local most, spaced = capacity * per, config.algorithm == 'leaky_bucket'
  local meter = { capacity = capacity, spaced = spaced, ahead = ahead }

  function meter.moved() return moves and moves.total or 0 end

  function meter.free()
    if spaced then return backlog == 0 and capacity or 0 end
    return math.max(0, math.floor((most - backlog) / per))
  end

  function meter.take(permits) backlog = backlog + permits * per end

  -- Removes ticks that come after `before` others, and returns how many. Grants behind them move
  -- forward; reservations keep their times.
  local function drain(before, ticks)
    if ticks == 0 then return 0 end
    local as_of, back = now + ahead, ticks
    moves = moves or no_moves()
    if lead > 0 then
      -- Times are rounded up: two milliseconds in all.
      local kept = reserved_of(moves, per, lead, as_of) + (lead + 2) * rate
      back = math.min(back, math.max(0, backlog - kept))
    end
    if back > 0 then
      local at = as_of + math.floor((before + ticks - back) / rate)
      move_behind(moves, at, back, rate, as_of, as_of + math.ceil(backlog / rate))
      backlog = backlog - back
    end
    return back
  end

  function meter.give_back_grant(grant)
    local held, before, last = held_by(grant, moves, backlog, rate, per, spaced, now + ahead)
    if last then
      backlog, lead = backlog - held, lead_before(grant, lead, now + ahead)
    else
      held = drain(before, held)
    end
    return math.ceil(held / per)
  end

  can_owe(meter, function() return backlog, lead end, most, rate, per)

  -- Records a reservation of permits that begins after `wait` ms. Returns after how many the last
  -- one before it begins.
  function meter.promise(permits, wait)
    local lead_then = lead
    if not spaced and wait > 0 and (permits > 1 or moves) then
      local ticks = permits * per
      local before = math.max(0, backlog - ticks)
      local overtaking = math.min(ticks, math.max(0, most + lead * rate - before))
      if lead == math.max(0, math.ceil((before - most) / rate)) then overtaking = 0 end
      moves = moves or no_moves()
      add_reservation(moves, ticks, overtaking, lead, now + ahead)
    end
    lead = math.max(lead, wait)
    return lead_then
  end

  -- Returns 0 while slots are reserved one after the other: two callers would get the same slot.
  function meter.give_back(permits)
    if spaced and lead > 0 then return 0 end
    return math.ceil(drain(0, math.min(backlog, permits * per)) / per)
  end

  function meter.wait(permits)
    -- In this order, so that no intermediate number exceeds 2^53.
    local over = spaced and backlog or backlog - (most - permits * per)
    return math.max(0, math.ceil(over / rate))
  end

  function meter.full_after() return math.ceil(backlog / rate) end

  function meter.kept_for()
    return math.max(meter.full_after(), moves and moves.ends - now or 0)
  end

  function meter.text()
    if meter.kept_for() == 0 then return nil end
    return text_of_bucket(now + math.floor(backlog / rate), backlog % rate, rate, per, now,
      lead > 0 and now + lead or 0, moves)
  end

  return meter
end
