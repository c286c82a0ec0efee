-- Counts windows that follow each other since the Unix epoch: fixed_window.
--
-- KEYS[2]  string  `window START/USED/PER`: what was taken in the window that began
--                  then and is so long, in milliseconds

local function read_window(text)
  local start, used, per = string.match(text or '', '^window (%d+)/(%d+)/(%d+)$')
  return start and { start = tonumber(start), used = tonumber(used), per = tonumber(per) }
end

-- What counts of a window now.
local function window_used(window, now)
  return window.start + window.per > now and window.used or 0
end

-- The window in force now, of which a stored one is known. When the clock stepped
-- back into the window before, that one stays in force: another would admit its
-- permits again. What is further ahead counts from now, or it would lock everybody out.
local function window_meter(config, window, now)
  local rate, per = config.rate, config.per
  local current = now - now % per
  local start, used, ahead = current, 0, 0
  if window.start > current + per then
    used, ahead = window.used, window.start - now
  elseif window.start >= current then
    start, used = window.start, window.used
  end
  local meter = { capacity = rate, ahead = ahead }

  function meter.free() return math.max(0, rate - used) end

  function meter.take(permits) used = used + permits end

  function meter.give_back(permits)
    local back = math.min(permits, used)
    used = used - back
    return back
  end

  function meter.wait(permits)
    return permits <= meter.free() and 0 or start + per - now
  end

  function meter.full_after() return used == 0 and 0 or start + per - now end

  function meter.text()
    return used > 0 and 'window ' .. decimal(start) .. '/' .. decimal(used) .. '/' .. decimal(per)
  end

  return meter
end
