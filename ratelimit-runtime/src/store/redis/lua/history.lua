-- Tracks the origin of the stored configuration, and earlier configurations.
--
-- KEYS[1]  hash  `epoch`, `changed` and `recent`, as below; see hash.lua
--
-- `epoch` is about the configuration that was announced last: the last heartbeat of a process that
-- has it (ms, six bytes), since when the process that announced it has had it (us, seven), the id of
-- that process or zeros if it sends no heartbeats (eight, see members.lua), the name of the
-- configuration (four, see `name_of`), and the revision in decimal digits, none for 0. Whole numbers
-- have their lowest byte first.
--
-- The epoch with the greater revision wins, then the later one. A stored configuration that the
-- epoch does not name is a change from outside: Java's setRate, an operator, set_rate.lua. `changed`
-- is its date, `made:held:rate/interval/rule`: when it was made or first seen (us), and until when
-- it is held (ms). Only a process that received its configuration later replaces it, and not while
-- it is held.
--
-- `recent` holds when earlier configurations were replaced (ms, six bytes) and their names, newest
-- first. None of them is new, so its return resets nothing.

-- How far ahead of this server's clock a process may date what it received (us): it estimates the
-- time. What it dates later is from before the clock was set back, and counts as the oldest.
local MOST_EARLY = 10000000
-- How many earlier configurations are remembered, and for how long (ms).
local REMEMBERED, REMEMBERED_FOR = 4, 3600000

-- Reads the last announcement, or returns nil if there is none.
local function read_epoch(text)
  local revision = #text > 25 and integer(string.sub(text, 26)) or #text == 25 and 0
  if not revision then return nil end
  local beat, since, limits, process = struct.unpack('<I6I7>I4I4', text)
  local by = limits + process > 0 and string.format('%08x%08x', limits, process)
  return { beat = beat, since = since, by = by, name = string.sub(text, 22, 25), revision = revision }
end

-- Returns the epoch of our configuration.
local function epoch_of(own, now)
  local revision = own.revision > 0 and decimal(own.revision) or ''
  return struct.pack('<I6', now) .. own.origin .. name_of(numbers_of(own)) .. revision
end

-- Returns an epoch with a heartbeat now.
local function beaten(text, now)
  return struct.pack('<I6', now) .. string.sub(text, 7)
end

-- Reads the earlier configurations as { name, text } entries.
local function recent_of(stored, now)
  local recent = {}
  for from = 1, #stored.recent - 9, 10 do
    local text = string.sub(stored.recent, from, from + 9)
    if now - struct.unpack('<I6', text) < REMEMBERED_FOR and #recent < REMEMBERED then
      recent[#recent + 1] = { name = string.sub(text, 7), text = text }
    end
  end
  return recent
end

local function is_recent(name, stored, now)
  for _, entry in ipairs(recent_of(stored, now)) do
    if entry.name == name then return true end
  end
  return false
end

-- Remembers the name of a configuration that another one replaces.
local function remember(replaced, by, stored, now)
  local texts = { struct.pack('<I6', now) .. replaced }
  for _, entry in ipairs(recent_of(stored, now)) do
    if entry.name ~= replaced and entry.name ~= by and #texts < REMEMBERED then
      texts[#texts + 1] = entry.text
    end
  end
  redis.call('HSET', KEYS[1], 'recent', table.concat(texts))
end

-- Records when a change from outside was made (us), and until when it is held (ms).
local function date_change(made, held, numbers)
  redis.call('HSET', KEYS[1], 'changed', decimal(made) .. ':' .. decimal(held) .. ':' .. numbers)
end

-- Returns the change from outside since the last announcement, if there was one; it has no date yet
-- if it `is_new`. A hash without an epoch is Java's own, and an announcing process replaces it.
local function change_of(stored, epoch, numbers_stored, asserting, now)
  local made, held, changed = string.match(stored.changed, '^(%d+):(%d+):(.+)$')
  if changed == numbers_stored then
    made, held = tonumber(made), tonumber(held)
    if made <= now * 1000 + MOST_EARLY then return { made = made, held = held } end
    -- The clock was set back: it is held as long as when it was made.
    held = now + math.max(0, held - math.floor(made / 1000))
    return { made = 0, held = held, is_redated = true }
  end
  local name = name_of(numbers_stored)
  if epoch and epoch.name == name or (not epoch and asserting) then return nil end
  return { made = now * 1000 + 999, held = 0, is_new = true }
end

-- Records the date of a change, and remembers the configuration that a new one replaced.
local function record_change(change, epoch, stored, now)
  if not (change.is_new or change.is_redated) then return end
  local numbers = numbers_of(stored)
  date_change(change.made, change.held, numbers)
  if epoch and change.is_new then remember(epoch.name, name_of(numbers), stored, now) end
end

-- Returns whether our configuration is newer than the stored one.
local function is_newer(own, epoch, change, now)
  local function since(by) return by.since > now * 1000 + MOST_EARLY and 0 or by.since end
  if change then
    return now >= change.held and since(own) > change.made
      and own.revision >= (epoch and epoch.revision or 0)
  end
  return not epoch or own.revision > epoch.revision
    or (own.revision == epoch.revision and since(own) > since(epoch))
end
