-- Decides what most calls to a fixed window come down to; see settled.lua and window.lua.
--
-- KEYS[1..3], ARGV[1..11]  as for acquire.lua
--
-- Returns what acquire.lua returns, or goes on to it with nothing written.
if ready then
  local current, ends, calendar = now - now % per, nil, stored[8]
  ends = current + per
  if calendar then
    -- Our windows are the first; none of them may be now, and then all goes on.
    local sent = ARGV[11] or ''
    local ours = string.sub(sent, 1, #calendar + 1) == calendar .. '='
    local before
    current = nil
    for bound in string.gmatch(ours and string.match(sent, '^[%d,]+', #calendar + 2) or '', '%d+') do
      bound = tonumber(bound)
      if before and before <= now and now < bound then current, ends = before, bound end
      before = bound
    end
  end

  local start, used, ending = current, 0, ends
  if state and current then
    local length, rest
    start, used, length, rest = string.match(state, '^window (%d+)/(%d+)/(%d+)(.*)$')
    if rest ~= (calendar and '/' .. calendar or '') or not (calendar or length == ARGV[3]) then
      start = nil
    else
      start, used = tonumber(start), tonumber(used)
      ending = start + tonumber(length)
      if ending <= now then start, used, ending = current, 0, ends end
    end
  end

  if start and start <= ends and cost <= rate then
    local free = math.max(0, rate - used)
    local fitting = math.min(count, math.floor(free / cost))
    used = used + fitting * cost
    local ends_in = ending - now
    if fitting > 0 then
      local ttl = ends_in + 1000
      if keep_alive > 0 then
        redis.call('PEXPIRE', KEYS[1], math.max(keep_alive, ends_in + 1))
      else
        local rest = redis.call('PTTL', KEYS[1])
        if rest > 0 then ttl = math.min(ttl, rest) end
      end
      redis.call('SET', KEYS[2], string.format('window %.0f/%.0f/%.0f%s',
        start, used, ending - start, calendar and '/' .. calendar or ''), 'PX', ttl)
    end
    return { 1, free, used > 0 and ends_in or 0, now, rate, per, 0, 0, 0,
      used + cost > rate and ends_in or 0 }
  end
end
