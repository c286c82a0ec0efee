-- Counts consecutive windows since the Unix epoch, or those of a calendar: fixed_window.
--
-- A state is the letter `f`, then numbers as in bucket.lua: START of the window in which permits
-- were last taken, USED, those taken in it, and LENGTH, in milliseconds; then `day@Europe/Vienna`
-- if it is a calendar window. While permits are owed beyond it, it begins with `o` instead, and
-- DEBT, their number, and PAID_BY, when all are paid, follow LENGTH.
--
-- ARGV[9]  when the windows of calendars begin, around the caller's guess of now:
--           `day@Europe/Vienna=1,2,3,4;hour@UTC=...`, in milliseconds

local WINDOW = { 'start', 'used', 'per' }
local OWING = { 'start', 'used', 'per', 'debt', 'paid_by' }

local function read_window(text)
  local letter = text and string.byte(text)
  if letter ~= 102 and letter ~= 111 then return nil end
  local window, behind = unpacked(text, 2, letter == 102 and WINDOW or OWING)
  if window and behind <= #text then
    window.calendar = string.match(text, '^%l+@.+$', behind)
    if not window.calendar then return nil end
  end
  return window
end

-- Writes what `read_window` reads.
local function text_of_window(window)
  local owes = (window.debt or 0) > 0
  return (owes and 'o' or 'f') .. packed(window, owes and OWING or WINDOW) .. (window.calendar or '')
end

local function taken_of(window, now)
  return window.start + window.per > now and window.used or 0
end

local function owed_of(window, now)
  return window.debt and now < window.paid_by and window.debt or 0
end

-- Returns whether a window is the current one of the configuration.
local function is_in_force(window, config, now)
  return window.start <= now and taken_of(window, now) > 0 and window.calendar == config.calendar
end

-- Returns the start and the length of the current window; nil if it is a calendar window that the
-- caller did not send.
local function window_at(config, now)
  if not config.calendar then return now - now % config.per, config.per end
  for calendar, bounds in string.gmatch(ARGV[9] or '', '([^;=]+)=([%d,]+)') do
    local start
    for bound in string.gmatch(calendar == config.calendar and bounds or '', '%d+') do
      bound = tonumber(bound)
      if start and start <= now and now < bound then return start, bound - start end
      start = bound
    end
  end
end

-- Returns whether the caller has to send the windows around now.
local function lacks_window(config, now)
  return config.calendar and config.rate > 0 and not window_at(config, now)
end

-- Opens the active window, given a stored one. If the clock stepped back into the window before,
-- the stored one stays active: another would admit its permits again. A window further ahead would
-- reject every call, so it counts in a window that begins now: the current one may end in a moment.
-- A calendar window counts as the current one.
local function window_meter(config, window, now)
  local rate, start, used, per = config.rate, window.start, window.used, window.per
  local ahead, debt = 0, owed_of(window, now)
  if not is_in_force(window, config, now) then
    local current, length = window_at(config, now)
    if start > current + length then
      start, per, ahead = config.calendar and current or now, length, start - now
    elseif start <= now then
      local ends = start + per
      if ends <= now then
        -- The next window begins there, wherever that one began.
        if not config.calendar and now < ends + per then current = ends end
        -- Debt took all of the windows in between, and what was left of that one. Those of a calendar
        -- differ in length, by less than half of the usual one.
        local rounding = config.calendar and math.floor((config.per - 1) / 2) or 0
        local between = math.floor((math.max(0, current - ends) + rounding) / config.per)
        debt = math.max(0, debt - math.max(0, rate - used) - between * rate)
      end
      start, per, used = current, length, 0
    end
  end
  -- Debt is paid with free permits.
  local paid = math.min(debt, math.max(0, rate - used))
  used, debt = used + paid, debt - paid
  local meter = { capacity = rate, ahead = ahead, paid = paid }

  function meter.free() return math.max(0, rate - used) end
  function meter.room() return meter.free() end
  function meter.debt() return debt end
  function meter.owe(permits) debt = debt + permits end
  function meter.take(permits) used = used + permits end

  function meter.give_back(permits)
    local owed = math.min(permits, debt)
    local back = math.min(permits - owed, used)
    used, debt = used - back, debt - owed
    return owed + back
  end

  function meter.wait(permits)
    if debt == 0 and permits <= meter.free() then return 0 end
    -- The windows that the debt takes first. Of calendar windows, only the first is known.
    local windows = config.calendar and 0 or math.floor((debt + permits - 1) / rate)
    return start + per - now + windows * per
  end

  local function owed_windows() return math.ceil(debt / rate) * per end

  function meter.full_after()
    return used == 0 and owed_windows() or start + per - now + owed_windows()
  end

  function meter.text()
    -- The next windows of a calendar may be longer than this one.
    local longer = config.calendar and owed_windows() or 0
    return used > 0 and text_of_window({ start = start, used = used, per = per, debt = debt,
      paid_by = math.min(now + meter.full_after() + longer, LONGEST), calendar = config.calendar }) or nil
  end

  return meter
end
