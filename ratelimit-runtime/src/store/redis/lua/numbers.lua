-- Reads and writes whole numbers.

-- Without an exponent, whatever the size.
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
