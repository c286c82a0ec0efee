-- Checks whether a fast path can decide a call: requests of one cost each, under our stored
-- configuration, or for the first use of a limiter.
--
-- KEYS[1..3], ARGV[1..7]  of the limiter: see limiter.lua
local windowed = rule == '0'
if rule ~= rule_text then
  rule_text, algorithm = rule, nil
  calendars = not windowed and string.byte(rule, 3) == 102 -- `0/fixed_window`
end
local detail, known, absent
local asserts = how == 'reset' or how == 'carry'
-- On the first use by a process most limiters are new.
if ready and asserts then absent = redis.call('EXISTS', KEYS[key], KEYS[key + 1], KEYS[key + 2]) == 0 end
if ready and not absent then
  local field = windowed and 'debt' or calendars and 'calendar' or 'burst'
  if asserts then
    stored = redis.pcall('HMGET', KEYS[key], 'rate', 'interval', 'type', 'keepAliveTime', 'algorithm', field,
      'state', 'epoch', 'changed')
  else
    stored = redis.pcall('HMGET', KEYS[key], 'rate', 'interval', 'type', 'keepAliveTime', 'algorithm', field,
      'state', 'epoch')
  end
  local ours = stored[1] == ARGV[word + 1] and stored[2] == ARGV[word + 2]
  state, detail = stored[7], stored[6]
  if stored[1] ~= rate_text or stored[2] ~= per_text or stored[4] ~= alive_text or stored[5] ~= algorithm
    or detail ~= parameter then
    rate_text, per_text, alive_text, algorithm, parameter = stored[1], stored[2], stored[4], stored[5], detail
    if ours then
      -- They are known to be numbers, so no function needs to be called.
      known_rate, known_per = rate_text + 0, per_text + 0
    else
      known_rate, known_per = tonumber(rate_text), tonumber(per_text)
    end
    known_alive = tonumber(alive_text) or 0
    if windowed then
      is_stored = not (algorithm or detail)
    else
      -- The burst is not stored if it is the rate.
      local more = detail or algorithm == 'token_bucket' and rate_text
      is_stored = algorithm and (more and '0/' .. algorithm .. '/' .. more or '0/' .. algorithm) == rule
    end
  end
  rate, per, keep_alive = known_rate, known_per, known_alive
  if rate then
    if windowed then known = is_stored and not state else known = is_stored and rate > 0 end
    settled = known and ours and stored[3] == '0'
      and (how == 'steady' or asserts or windowed and how == 'following')
      and keep_alive % 1 == 0 and keep_alive >= 0 and keep_alive <= 2 ^ 52
    local epoch = stored[8]
    if epoch and #epoch < 25 then epoch = nil end
    if settled and asserts then
      -- There is nothing to announce if this was announced later, or by this process: see history.lua.
      settled = epoch and not stored[9]
      if settled then
        local digits = redis.sha1hex(ARGV[word + 1] .. '/' .. ARGV[word + 2] .. '/' .. rule)
        local name = struct.pack('>I4', tonumber(string.sub(digits, 1, 8), 16)) -- `name_of`
        local revision = tonumber(string.sub(epoch, 26)) or 0
        local our_revision = tonumber(string.match(ARGV[word + 4], ' (%d+)$', 16)) or 0
        local announced = struct.unpack('<I7', epoch, 7)
        settled = string.sub(epoch, 22, 25) == name and (revision > our_revision or revision == our_revision
          and announced >= struct.unpack('<I7', ARGV[word + 4]) and announced <= now * 1000 + 10000000) -- `MOST_EARLY`
      end
    end
    if settled and (asserts or how == 'steady') then
      -- A process sends a heartbeat every ten seconds. A limiter does not expire for its keep-alive
      -- after that, so the expiry is renewed with the heartbeat, or when the limiter counts longer.
      local since = epoch and now - struct.unpack('<I6', epoch)
      local beats = not since or since < 0 or since >= 10000
      if not windowed then
        renews = (beats or keep_alive > 0 and since >= keep_alive / 4) and 0 or keep_alive - since
      end
      if epoch and not asserts and (beats or renews == 0) then
        beaten = struct.pack('<I6', now) .. string.sub(epoch, 7)
      end
    end
    -- Without a state, a limiter may have a log from before.
    if settled and not (windowed or state) then
      settled = redis.call('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0
    end
  elseif not asserts and string.byte(how) ~= 102 -- `follow`
    and not (stored[2] or stored[3] or stored[5] or detail or state or stored.err) then
    absent = redis.call('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0
  end
end
if absent and cost and string.byte(rule) == 48 then
  detail = #rule > 14 and string.sub(rule, 16)
  rate, per, renews = tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2]), 0
  keep_alive = tonumber(string.match(ARGV[word + 4], '^%d+', 16))
  if rate > 0 and not (detail and string.byte(detail) == 119) then -- `w`
    if detail and (calendars or detail ~= ARGV[word + 1]) then
      fresh = { 'algorithm', string.sub(rule, 3, 14), calendars and 'calendar' or 'burst', detail }
    else
      fresh = windowed and {} or { 'algorithm', string.sub(rule, 3, 14) }
    end
  end
end
if fresh then event = 1 elseif settled and asserts then event = 2 end -- created, unchanged
