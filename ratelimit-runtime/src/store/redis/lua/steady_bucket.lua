-- Fast path for buckets; see steady.lua, bucket.lua and moves.lua.
-- Rounds by remainders, because each function call costs more than a line.
--
-- KEYS[1], ARGV[2..3]  of the limiter: see limiter.lua
if (settled or fresh) and cost and not (windowed or calendars) then
  local empty_at, ticks, of_rate, of_per, at, last = now, 0, rate, per, now, 0
  local moves, moved, kept_until = nil, 0, 0
  if state then
    local behind = #state - 36
    local letter
    if behind == -7 or behind == 0 or behind >= 56 and behind % 14 == 0 then
      letter, empty_at, ticks, of_rate, of_per, at = struct.unpack('<BI7I4I4I7I6', state)
    end
    if letter ~= 98 then
      of_rate = nil
    elseif behind >= 0 then
      last = struct.unpack('<I7', state, 30)
      if behind > 0 then
        moves = string.sub(state, 37)
        moved, kept_until = struct.unpack('<I7I7', moves)
      end
    end
    state = nil
  end
  local spaced = rule == '0/leaky_bucket'
  local capacity = detail and not spaced and tonumber(detail) or rate
  local most, backlog = capacity * per, (empty_at - now) * rate + ticks
  if backlog < 0 then backlog = 0 end

  if of_rate == rate and of_per == per and at <= now and backlog <= 2 ^ 53 and cost <= capacity then
    local left, fitting = most - backlog, 0
    local free = left > 0 and (left - left % per) / per or 0
    if spaced then free = backlog == 0 and capacity or 0 end
    if cost <= free then fitting = (count == 1 or spaced) and 1 or math.min(count, math.floor(free / cost)) end
    if fitting > 0 then
      backlog = backlog + fitting * cost * per
      left = most - backlog
      ticks = backlog % rate
      state = struct.pack('<BI7I4I4I7I6', 98, now + (backlog - ticks) / rate, ticks, rate, per, now)
      if last > now or moves then state = state .. struct.pack('<I7', last > now and last or 0) end
      if moves then state = state .. moves end
    end
    if alone or fitting == count then
      -- Until the same could be granted again, and until one more is free than now.
      local over, more = backlog, backlog
      if not spaced then
        over, more = cost * per - left, left < 0 and per - left or per - left % per
        if more + left > most then more = 0 end
      end
      lasts = (backlog + -backlog % rate) / rate
      reply = struct.pack(PACKED, event, free, lasts, now, (more + -more % rate) / rate, moved,
        over > 0 and (over + -over % rate) / rate or 0)
      if kept_until > now + lasts then lasts = kept_until - now end
    end
  end
end
