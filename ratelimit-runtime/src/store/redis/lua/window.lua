-- Counts windows that follow each other since the Unix epoch, or that begin by a
-- calendar: fixed_window.
--
-- KEYS[2]   string  `window START/USED/LENGTH`: what was taken in the window that
--                   began then and is so long, in milliseconds; behind it
--                   `/day@Europe/Vienna` where it is a calendar's
-- KEYS[1]   hash    `debt`: permits that are owed beyond it; see hash.lua
-- ARGV[11]  when the windows of calendars begin, around what the caller takes for
--           now: `day@Europe/Vienna=1,2,3,4;hour@UTC=...`, in milliseconds

local function read_window(text)
  local start, used, per, rest = string.match(text or '', '^window (%d+)/(%d+)/(%d+)(.*)$')
  local calendar = string.match(rest or '', '^/(%l+@.+)$')
  if not start or (rest ~= '' and not calendar) then return nil end
  local window = {
    start = tonumber(start), used = tonumber(used), per = tonumber(per), calendar = calendar,
  }
  return are_exact(window) and window or nil
end

-- What counts of a window now.
local function window_used(window, now)
  return window.start + window.per > now and window.used or 0
end

-- Whether a window is that one of the configuration which is now.
local function is_in_force(window, config, now)
  return window.start <= now and window_used(window, now) > 0 and window.calendar == config.calendar
end

-- When the window of now began, and how long it is; nil when it is one of a
-- calendar, and not among those the caller sent.
local function window_at(config, now)
  if not config.calendar then return now - now % config.per, config.per end
  for calendar, bounds in string.gmatch(ARGV[11] or '', '([^;=]+)=([%d,]+)') do
    local start
    for bound in string.gmatch(calendar == config.calendar and bounds or '', '%d+') do
      bound = tonumber(bound)
      if start and start <= now and now < bound then return start, bound - start end
      start = bound
    end
  end
end

-- Whether the caller has to be asked for the windows around now.
local function lacks_window(config, now)
  return config.calendar and config.rate > 0 and not window_at(config, now)
end

-- The window in force now, of which a stored one is known. When the clock stepped
-- back into the window before, that one stays in force: another would admit its
-- permits again. What is further ahead counts from now, or it would lock everybody out.
local function window_meter(config, window, now, owed)
  local rate, start, used, per = config.rate, window.start, window.used, window.per
  local ahead, debt = 0, owed or config.debt or 0
  if not is_in_force(window, config, now) then
    local current, length = window_at(config, now)
    if start > current + length then
      start, per, ahead = current, length, start - now
    elseif start <= now then
      if start + per <= now and not config.calendar then
        -- What was owed took all of the windows in between, and what was left of that one.
        local between = math.floor((current - start - per) / per)
        debt = math.max(0, debt - math.max(0, rate - used) - between * rate)
      end
      start, per, used = current, length, 0
    end
  end
  -- What is owed is paid with what is free.
  local paid = math.min(debt, math.max(0, rate - used))
  used, debt = used + paid, debt - paid
  local meter = { capacity = rate, ahead = ahead, paid = paid }

  function meter.free() return math.max(0, rate - used) end

  function meter.room() return meter.free() end

  function meter.debt() return debt end

  function meter.owe(permits) debt = debt + permits end

  function meter.owes() return debt end

  function meter.take(permits) used = used + permits end

  function meter.give_back(permits)
    local owed = math.min(permits, debt)
    local back = math.min(permits - owed, used)
    used, debt = used - back, debt - owed
    return owed + back
  end

  function meter.wait(permits)
    if debt == 0 and permits <= meter.free() then return 0 end
    -- The windows that what is owed takes first. Of a calendar's only the first is known.
    local windows = config.calendar and 0 or math.floor((debt + permits - 1) / rate)
    return start + per - now + windows * per
  end

  function meter.full_after()
    local owed = math.ceil(debt / rate) * per
    return used == 0 and owed or start + per - now + owed
  end

  function meter.text()
    return used > 0 and 'window ' .. decimal(start) .. '/' .. decimal(used) .. '/' .. decimal(per)
      .. (config.calendar and '/' .. config.calendar or '')
  end

  return meter
end
