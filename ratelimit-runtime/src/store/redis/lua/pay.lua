-- Pays the debt of a configuration that is about to be replaced.
--
-- KEYS[1..3]  hash, counter, log: see debt.lua, window.lua

-- Returns the stored window with its debt paid, if that can pay now. Windows of a calendar are left out,
-- because not all calls send them.
local function paying_window(stored, now)
  local window = stored.rate > 0 and stored.algorithm == 'fixed_window' and read_window(stored.state)
  if window and window.debt and not (stored.calendar or window.calendar) and window.per == stored.per then
    return window_meter(stored, window, now)
  end
end

-- Pays with what became free under the stored configuration: later nothing says at which rate.
local function pay_stored(stored, now)
  if stored.rate == 0 then return end
  local window = paying_window(stored, now)
  if window then
    stored.state = window.text()
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
