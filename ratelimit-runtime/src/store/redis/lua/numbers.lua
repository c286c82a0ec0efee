-- Reads and writes whole numbers.
--
-- Scripts count in doubles, which are exact up to 2^53. Nothing that is read is trusted to
-- be less, and nothing greater is sent to the server.
local MOST_EXACT = 2 ^ 53
-- The longest window, expiry or keep-alive (ms): 140 000 years.
local LONGEST = 2 ^ 52

-- Without an exponent, whatever the size.
local function decimal(number)
  return string.format('%.0f', number)
end

-- Reads a whole number up to 2^53, or nil.
local function integer(text)
  local number = tonumber(text or nil)
  if number and number == math.floor(number) and math.abs(number) <= MOST_EXACT then
    return number
  end
  return nil
end

-- A count or a time as a reply can hold it.
local function countable(number)
  return math.max(0, math.min(number, MOST_EXACT))
end

-- Whether all numbers of a state can be counted with.
local function are_exact(state)
  for _, number in pairs(state) do
    if type(number) == 'number' and number > MOST_EXACT then return false end
  end
  return true
end
