-- Shared by all buckets: a backlog in ticks that drains steadily, reservations at its end, grants
-- in it, and permits owed beyond its capacity; see bucket.lua.
local MOST_AHEAD = 2 ^ 51 -- ticks beyond what a bucket holds

-- Returns the milliseconds until the last reservation begins.
local function lead_of(state, now)
  return math.max(0, state.last - math.max(now, state.at))
end

-- A reservation that overtook others has begun two turns later.
local function turn(moves, lead, now)
  if lead == 0 then
    moves.largest, moves.earlier, moves.later, moves.turns_at = 0, 0, 0, 0
  elseif now >= moves.turns_at then
    moves.earlier, moves.later, moves.turns_at = moves.later, 0, now + lead
  end
end

-- Records a reservation of ticks, of which `overtaking` drain before the last reservation
-- begins, in `lead` ms.
local function add_reservation(moves, ticks, overtaking, lead, now)
  turn(moves, lead, now)
  moves.largest = math.max(moves.largest, ticks)
  moves.later = math.min(moves.later + overtaking, MOST_EXACT)
end

-- Returns the ticks that must stay beside those that drain until the last reservation begins, so
-- that no reservation drains before it begins.
local function reserved_of(moves, per, lead, now)
  turn(moves, lead, now)
  return math.max(moves.largest, per) + moves.earlier + moves.later
end

-- Returns the ticks of a backlog that a grant under the same configuration still holds, those that
-- drain before them, and whether none were granted after them. A reserved slot that has not begun
-- is held only while it is the last: later slots do not move. Slots are held whole or not at all.
local function held_by(grant, moves, ticks, rate, per, spaced, now)
  local ends_in = math.max(0, grant.ends - now) * rate
  local moved, latest = moved_of(moves or no_moves(), ends_in, grant.moved, rate, now)
  ends_in = math.max(0, ends_in - moved)
  local last = ends_in >= ticks and ends_in - ticks < rate
  local begun = grant.before > MOST_EXACT or ends_in <= capacity_of(grant) * per
  if ends_in == 0 or (not last and (spaced or not begun)) then return 0, 0, false end
  -- A grant ends within the millisecond before its recorded end. The exact tick is known for the
  -- last grant if no other ends in that millisecond, and if all end at the same tick.
  local only, ending = per >= rate, nil
  if last and only then
    ending = ticks
  elseif per % rate == 0 then
    local behind = (ends_in % rate + rate - ticks % rate) % rate
    ending = math.min(latest, math.max(0, ends_in - behind))
  else
    ending = math.min(latest, math.max(0, ends_in - (rate - 1)))
  end
  local held = math.min(grant.permits * per, ending, ticks)
  if spaced then held = math.floor(held / per) * per end
  return held, ending - held, last and (only or spaced or not begun)
end

-- Returns the milliseconds until the last reservation begins that was made before this grant.
local function lead_before(grant, lead, now)
  return math.min(lead, math.max(0, grant.before - now))
end

-- Lets a meter owe permits. `level` returns its backlog, and the time until the last reservation
-- begins, from when on it holds as much as it can.
local function can_owe(meter, level, most, rate, per)
  local function beyond()
    local backlog, lead = level()
    return (backlog - most - lead * rate) / per
  end

  function meter.room() return math.max(0, math.floor(-beyond())) end
  function meter.debt() return math.max(0, math.ceil(beyond())) end
  function meter.most_owed() return math.max(0, math.floor((most + MOST_AHEAD - level()) / per)) end
  function meter.owe(permits) meter.take(permits) end
end
