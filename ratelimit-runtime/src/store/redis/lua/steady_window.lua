-- Decides what most calls to a fixed window come down to; see settled.lua and window.lua.
--
-- KEYS[1..3], ARGV[1..9]  as for acquire.lua
--
-- Returns what acquire.lua returns, or goes on to it with nothing written.
if ready then
  local current = now - now % per
  local start, used = current, 0
  if state then
    start, used = string.match(state, '^window (%d+)/(%d+)/' .. ARGV[3] .. '$')
    start, used = tonumber(start), tonumber(used)
    if start and start < current then start, used = current, 0 end
  end

  if start and start <= current + per and cost <= rate then
    local free = math.max(0, rate - used)
    local fitting = math.min(count, math.floor(free / cost))
    used = used + fitting * cost
    local ends_in = start + per - now
    if fitting > 0 then
      local ttl = ends_in + 1000
      if keep_alive > 0 then
        redis.call('PEXPIRE', KEYS[1], math.max(keep_alive, ends_in + 1))
      else
        local rest = redis.call('PTTL', KEYS[1])
        if rest > 0 then ttl = math.min(ttl, rest) end
      end
      redis.call('SET', KEYS[2], string.format('window %.0f/%.0f/%s', start, used, ARGV[3]), 'PX', ttl)
    end
    return { 1, free, used > 0 and ends_in or 0, now, rate, per, 0, 0, 0,
      used + cost > rate and ends_in or 0 }
  end
end
