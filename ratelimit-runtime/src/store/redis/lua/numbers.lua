-- Reads and writes whole numbers.
--
-- Scripts count in doubles, which are exact up to 2^53. Every number that is read is checked
-- against that, and no greater one is sent to the server.
local MOST_EXACT = 2 ^ 53
-- The longest window, expiry or keep-alive (ms): 140 000 years.
local LONGEST = 2 ^ 52

-- Formats a number of any size without an exponent.
local function decimal(number)
  return string.format('%.0f', number)
end

-- Reads a whole number up to 2^53, or nil.
local function integer(text)
  local number = tonumber(text or nil)
  if number and number == math.floor(number) and math.abs(number) <= MOST_EXACT then
    return number + 0 -- `-0` is written with its sign
  end
  return nil
end

-- Limits a count or a time to what a reply can hold.
local function countable(number)
  return math.max(0, math.min(number, MOST_EXACT))
end

-- Names a configuration in four bytes.
local function name_of(numbers)
  return struct.pack('>I4', tonumber(string.sub(redis.sha1hex(numbers), 1, 8), 16))
end

-- Reads the named numbers of a state, and where they end; nil if one is missing or above 2^53.
local function unpacked(text, from, names)
  local numbers = {}
  if #text < from + #names * 7 - 1 then return nil end
  for n, name in ipairs(names) do
    numbers[name] = struct.unpack('<I7', text, from + n * 7 - 7)
    if numbers[name] > MOST_EXACT then return nil end
  end
  return numbers, from + #names * 7
end

-- Writes what `unpacked` reads.
local function packed(numbers, names)
  local texts = {}
  for n, name in ipairs(names) do texts[n] = struct.pack('<I7', numbers[name]) end
  return table.concat(texts)
end
