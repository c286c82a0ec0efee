-- Tells the time: the server's own, so that no client's clock can bend a limit.
--
-- Time is read once per script, because it goes on while a script runs. Tests
-- give it as the last argument of any script; the runtime never does.
--
-- Returns whole milliseconds since the Unix epoch.
local function server_time(given)
  if given then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Writes a whole number without an exponent, whatever its size.
local function decimal(number)
  return string.format('%.0f', number)
end

-- Reads a whole number below 2^53, or nil.
local function integer(text)
  local number = tonumber(text or nil)
  if number and number == math.floor(number) and math.abs(number) <= 9007199254740992 then
    return number
  end
  return nil
end
