-- Decides what most calls to a bucket come down to; see steady_meter.lua and bucket.lua.
--
-- KEYS[2], ARGV[2..3]  of the limiter: see limiter.lua
if metered and stored[6] ~= 'fixed_window' then
  local empty_at, ticks, at, begins, numbers = now, 0, now, '', stored[1] .. '/' .. stored[2]
  local moves, moved, kept_until = '', 0, 0
  if state then
    empty_at, ticks, at, begins, moves =
      string.match(state, '^bucket (%d+)/(%d+)/' .. numbers .. '/(%d+)/?(%d*)([ /:%d]*)$')
    if moves and moves ~= '' then
      moved, kept_until = string.match(moves, '^ (%d+)/(%d+)/%d+/%d+/%d+/%d+/%d+/%d+')
      moved, kept_until = tonumber(moved), tonumber(kept_until)
      empty_at = kept_until and empty_at
    end
  end
  local capacity, spaced = tonumber(stored[7]) or rate, stored[6] == 'leaky_bucket'
  local backlog = empty_at and math.max(0, (empty_at - now) * rate + ticks)
  local most = capacity * per
  state = nil

  if backlog and backlog <= 2 ^ 53 and tonumber(at) <= now and cost <= capacity then
    local free = math.max(0, math.floor((most - backlog) / per))
    if spaced then free = backlog == 0 and capacity or 0 end
    local fitting = math.min(spaced and 1 or count, math.floor(free / cost))
    backlog = backlog + fitting * cost * per
    lasts = math.ceil(backlog / rate)
    if fitting > 0 then
      begins = begins ~= '' and tonumber(begins) > now and '/' .. begins or ''
      state = string.format('bucket %.0f/%.0f/%s/%.0f%s%s', now + math.floor(backlog / rate),
        backlog % rate, numbers, now, begins, moves)
    end
    if alone or fitting == count then
      local over = spaced and backlog or backlog - (most - cost * per)
      local following = math.max(0, math.floor((most - backlog) / per)) + 1
      local more = spaced and backlog or following <= capacity and backlog - (most - following * per) or 0
      reply = { 1, free, lasts, now, rate, per, 0, fresh and 1 or 0, 0, math.ceil(more / rate), moved,
        math.max(0, math.ceil(over / rate)) }
      lasts = math.max(lasts, kept_until - now)
    end
  end
end
