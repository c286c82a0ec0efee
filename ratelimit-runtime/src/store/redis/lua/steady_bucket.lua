-- Decides what most calls to a bucket come down to; see settled.lua and bucket.lua.
--
-- KEYS[1..3], ARGV[1..9]  as for acquire.lua
--
-- Returns what acquire.lua returns, or goes on to it with nothing written.
if ready then
  local empty_at, ticks, at, last = now, 0, now, ''
  if state then
    empty_at, ticks, at, last =
      string.match(state, '^bucket (%d+)/(%d+)/' .. ARGV[2] .. '/' .. ARGV[3] .. '/(%d+)/?(%d*)$')
  end
  local capacity, spaced = tonumber(stored[7]) or rate, stored[6] == 'leaky_bucket'
  local backlog = empty_at and math.max(0, (empty_at - now) * rate + ticks)
  local most = capacity * per

  if backlog and tonumber(at) <= now and cost <= capacity then
    local free = math.max(0, math.floor((most - backlog) / per))
    if spaced then free = backlog == 0 and capacity or 0 end
    local fitting = math.min(spaced and 1 or count, math.floor(free / cost))
    backlog = backlog + fitting * cost * per
    local full_after = math.ceil(backlog / rate)
    if fitting > 0 then
      local ttl = full_after + 1000
      if keep_alive > 0 then
        redis.call('PEXPIRE', KEYS[1], math.max(keep_alive, full_after + 1))
      else
        local rest = redis.call('PTTL', KEYS[1])
        if rest > 0 then ttl = math.min(ttl, rest) end
      end
      local lead = last ~= '' and tonumber(last) > now and '/' .. last or ''
      redis.call('SET', KEYS[2], string.format('bucket %.0f/%.0f/%s/%s/%.0f%s',
        now + math.floor(backlog / rate), backlog % rate, ARGV[2], ARGV[3], now, lead), 'PX', ttl)
    end
    local over = spaced and backlog or backlog - (most - cost * per)
    return { 1, free, full_after, now, rate, per, 0, 0, 0, math.max(0, math.ceil(over / rate)) }
  end
end
