-- Fast path for fixed windows; see steady.lua and window.lua.
--
-- KEYS[1], ARGV[3], ARGV[9]  of the limiter: see limiter.lua
if (settled or fresh) and calendars and cost and cost <= rate then
  local current, ends, calendar = now - now % per, nil, detail
  ends = current + per
  if calendar then
    -- If none of the sent windows is the current one, the fast path is not enough.
    local windows, before = ARGV[LIMITERS * 7 + 2] or '', nil
    local _, sent = string.find(windows, calendar .. '=', 1, true)
    current = nil
    for bound in string.gmatch(sent and string.match(windows, '^[%d,]+', sent + 1) or '', '%d+') do
      bound = tonumber(bound)
      if before and before <= now and now < bound then current, ends = before, bound end
      before = bound
    end
  end

  local letter, start, used, length = nil, current, 0, current and ends - current
  if state and current then
    start = nil
    if #state > 21 then
      letter, start, used, length = struct.unpack('<BI7I7I7', state)
      if letter ~= 102 or not calendar and (length ~= per or #state > 22)
        or calendar and string.sub(state, 23) ~= calendar then
        start = nil
      elseif start + length <= now then
        -- The next window begins where that one ended: see window.lua.
        start = not calendar and now < start + 2 * length and start + length or current
        used, length = 0, ends - current
      end
    end
  end
  state = nil

  if start and start <= ends and used <= 2 ^ 53 and start + length - now <= 2 ^ 52 then
    local free, fitting = rate > used and rate - used or 0, 0
    if cost <= free then fitting = count == 1 and 1 or math.min(count, math.floor(free / cost)) end
    used, lasts = used + fitting * cost, start + length - now
    if fitting > 0 then
      state = struct.pack('<BI7I7I7', 102, start, used, length) .. (calendar or '')
    end
    if alone or fitting == count then
      local ends_in = used > 0 and lasts or 0
      reply = struct.pack(PACKED, event, free, ends_in, now, ends_in, 0,
        used + cost > rate and lasts or 0)
    end
  end
end
