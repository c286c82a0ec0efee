-- Tracks the origin of the stored configuration, and earlier configurations.
--
-- KEYS[1]  hash  `epoch`, `changed` and `recent`, as below; see hash.lua
--
-- `epoch` is `revision:since@process:rate/interval/rule`, see `name_of`: the configuration that was
-- announced last, since when its process has had it, and the id of that process if it sends
-- heartbeats (members.lua). The greater epoch wins. A stored configuration that the epoch does not
-- name is a change from outside: Java's setRate, an operator, set_rate.lua. `changed` is its date,
-- `made:held:rate/interval/rule`: when it was made or first seen (us), and until when it is held
-- (ms). Only a process that received its configuration later replaces it, and not while it is held.
--
-- `recent` is `ms=rate/interval/rule;...`: earlier configurations and when each was replaced,
-- newest first. None of them is new, so its return resets nothing.

-- How many earlier configurations are remembered, and for how long (ms).
local REMEMBERED, REMEMBERED_FOR = 4, 3600000

-- Reads the earlier configurations as { numbers, text } entries.
local function recent_of(stored, now)
  local recent = {}
  for text, at, numbers in string.gmatch(stored.recent, '((%d+)=([^;]+))') do
    if now - tonumber(at) < REMEMBERED_FOR and #recent < REMEMBERED then
      recent[#recent + 1] = { numbers = numbers, text = text }
    end
  end
  return recent
end

local function is_recent(numbers, stored, now)
  for _, entry in ipairs(recent_of(stored, now)) do
    if entry.numbers == name_of(numbers) then return true end
  end
  return false
end

-- Remembers a configuration that another one replaces.
local function remember(replaced, by, stored, now)
  replaced, by = name_of(replaced), name_of(by)
  local texts = { decimal(now) .. '=' .. replaced }
  for _, entry in ipairs(recent_of(stored, now)) do
    if entry.numbers ~= replaced and entry.numbers ~= by and #texts < REMEMBERED then
      texts[#texts + 1] = entry.text
    end
  end
  redis.call('HSET', KEYS[1], 'recent', table.concat(texts, ';'))
end

-- Records when a change from outside was made (us), and until when it is held (ms).
local function date_change(made, held, numbers)
  redis.call('HSET', KEYS[1], 'changed', decimal(made) .. ':' .. decimal(held) .. ':' .. numbers)
end

-- Returns the origin of the stored configuration: the `epoch` of the last announcement, if there
-- was one, and the `change` from outside since, which is dated here if it is not yet. A hash
-- without an epoch is Java's own, and an announcing process replaces it.
local function origin_of(stored, numbers_stored, asserting, now)
  local revision, since, by, announced = string.match(stored.epoch, '^(%d+):(%d+)@?(%x*):(.+)$')
  local epoch = announced
    and { revision = tonumber(revision), since = tonumber(since), by = by ~= '' and by }
  local made, held, changed = string.match(stored.changed, '^(%d+):(%d+):(.+)$')
  if changed == numbers_stored then
    return epoch, { made = tonumber(made), held = tonumber(held) }
  end
  if announced == name_of(numbers_stored) or (not epoch and asserting) then return epoch, nil end
  local change = { made = now * 1000 + 999, held = 0 }
  date_change(change.made, change.held, numbers_stored)
  if epoch then remember(announced, numbers_stored, stored, now) end
  return epoch, change
end

-- Returns whether our configuration is newer than the stored one.
local function is_newer(own, epoch, change, now)
  if change then
    return now >= change.held and own.since > change.made
      and own.revision >= (epoch and epoch.revision or 0)
  end
  return not epoch or own.revision > epoch.revision
    or (own.revision == epoch.revision and own.since > epoch.since)
end
