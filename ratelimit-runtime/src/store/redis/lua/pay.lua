-- Pays the debt of a configuration that is about to be replaced.
--
-- KEYS[1..3]  hash, counter, log: see debt.lua, window.lua

-- Pays with what became free under the stored configuration: later nothing says at which rate. Windows
-- of a calendar are left out, because not all calls send them.
local function pay_stored(stored, now)
  if stored.rate == 0 then return end
  local window = read_window(stored.state)
  if window and window.debt and stored.algorithm == 'fixed_window'
    and not (stored.calendar or window.calendar) and window.per == stored.per then
    stored.state = window_meter(stored, window, now).text()
    if stored.state then
      redis.call('HSET', KEYS[1], 'state', stored.state)
    else
      redis.call('HDEL', KEYS[1], 'state')
    end
  elseif stored.debt > 0 and not (stored.algorithm or stored.state) then
    local dropped = pay_as_freed(stored, now)
    local expired, released = over(stored.per, now)
    if not (dropped and expired) then return end
    drop(expired)
    local free = integer(redis.call('GET', KEYS[2]))
    if free then redis.call('SET', KEYS[2], decimal(free + dropped + released), 'KEEPTTL') end
  end
end
