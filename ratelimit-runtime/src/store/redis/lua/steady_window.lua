-- Decides what most calls to a fixed window come down to; see steady_meter.lua and window.lua.
--
-- KEYS[2], ARGV[3], ARGV[11]  of the limiter: see limiter.lua
if metered and stored[6] == 'fixed_window' then
  local current, ends, calendar = now - now % per, nil, stored[8]
  ends = current + per
  if calendar then
    -- None of the windows that were sent may be now, and then this is not enough.
    local windows, before = ARGV[LIMITERS * 9 + 2] or '', nil
    local _, sent = string.find(windows, calendar .. '=', 1, true)
    current = nil
    for bound in string.gmatch(sent and string.match(windows, '^[%d,]+', sent + 1) or '', '%d+') do
      bound = tonumber(bound)
      if before and before <= now and now < bound then current, ends = before, bound end
      before = bound
    end
  end

  local start, used, ending, suffix = current, 0, ends, calendar and '/' .. calendar or ''
  if state and current then
    local length, rest
    start, used, length, rest = string.match(state, '^window (%d+)/(%d+)/(%d+)(.*)$')
    if rest ~= suffix or not (calendar or length == stored[2]) then
      start = nil
    else
      start, used = tonumber(start), tonumber(used)
      ending = start + tonumber(length)
      if ending <= now then start, used, ending = current, 0, ends end
    end
  end
  state = nil

  if start and start <= ends and ending - now <= 2 ^ 52 and cost <= rate then
    local free = math.max(0, rate - used)
    local fitting = math.min(count, math.floor(free / cost))
    used, lasts = used + fitting * cost, ending - now
    if fitting > 0 then
      state = string.format('window %.0f/%.0f/%.0f%s', start, used, ending - start, suffix)
    end
    if alone or fitting == count then
      local ends_in = used > 0 and lasts or 0
      reply = { 1, free, ends_in, now, rate, per, 0, fresh and 1 or 0, 0, ends_in, 0,
        used + cost > rate and lasts or 0 }
    end
  end
end
