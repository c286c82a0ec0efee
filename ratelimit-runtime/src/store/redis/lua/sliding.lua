-- Counts a sliding window by its log and counter, as a meter.
--
-- KEYS[1]  hash    the configuration, what was `counted` (see mend.lua), and the `debt`
-- KEYS[2]  string  the counter
-- KEYS[3]  zset    the log
-- ARGV[6]  as for limiter.lua
-- ARGV[7]  bytes   an id for a new member

-- The meter of a log that was brought up to date for these runs, or nil when the state
-- is foreign. What it takes is one grant, written when it is stored. The counter is read here,
-- unless `text` is it.
local function sliding_meter(config, text, runs, event, now)
  local rate, per = config.rate, config.per
  if text == nil then text = read_counter(config, ARGV[7], now) end
  if text == nil or (text and not tonumber(text)) then return nil end
  local bucket, dropped = bucket_of(per), pay_as_freed(config, now)
  if not dropped then return nil end
  local debt, free = config.debt, integer(text)
  local wanted = sum_of(runs, rate) + debt

  -- What is older than a window is free again, a bounded number of members at once.
  local expired, released = 0, 0
  local fresh = not text and redis.call('ZCARD', KEYS[3]) == 0
  if not fresh then expired, released = over(per, now) end
  if not expired then return nil end
  free = fresh and rate or free and free + released + dropped
  local changed, agreed, members, ahead = fresh or expired + dropped > 0, false, 0, 0

  -- A counter that was kept for other numbers: above the rate, or in a process that follows and
  -- went by others so far.
  local doubtful = not free or free > rate or expired > 0 or event ~= NOTHING
    or ARGV[6] == 'follow' or tonumber(ARGV[2]) ~= rate or tonumber(ARGV[3]) ~= per
  if not fresh and (doubtful or (free < wanted and not is_counted(rate, text, now + bucket))) then
    -- Looked through before anything is written: what is foreign is left alone.
    local used, whole
    used, whole, members = count(expired)
    if not used then return nil end
    drop(expired)
    agreed = whole
    if not whole then
      -- A long log, written by a peer, is made short before it is counted.
      compact(read_log(), bucket, now)
      free, changed = math.min(rate - used, free or 0), true
    elseif not free or free + used >= rate then
      changed = changed or free ~= rate - used
      free = rate - used
    else
      -- The counter knows of permits that the log lost: they count from now.
      redis.call('ZADD', KEYS[3], now,
        struct.pack('<Bc0I', #ARGV[7] + 1, ARGV[7] .. '?', rate - used - free))
      changed = true
    end
    if whole and used > 0 and (expired > 0 or free < wanted) then ahead = restamp(now, now + bucket) end
  end

  local meter = { capacity = rate, ahead = ahead }
  -- What is owed is paid with what is free, such as permits that were given back: taken now.
  local taken = math.min(debt, math.max(0, free))
  local score, noting, newest = nil, false, nil
  free, debt = free - taken, debt - taken

  function meter.free() return free end
  function meter.room() return math.max(0, free) end
  function meter.debt() return debt end
  function meter.owe(permits) debt = debt + permits end
  function meter.take(permits) free, taken = free - permits, taken + permits end

  function meter.store()
    local owed = config.debt
    store_debt(config, debt)
    if debt ~= owed then changed = true end
    if taken > 0 then score = record(taken, rate, bucket, now) end
    if taken > 0 or changed then store_counter(free, config) end
    -- A grant leaves the note to the first refusal, unless that had much to count.
    noting = agreed and (taken == 0 or members > 16)
    newest = (taken == 0 or noting) and newest_score()
  end

  function meter.full_after()
    local after = score and math.max(score + per - now, 0) or full_after(newest, per, now)
    return after + math.ceil(debt / math.max(1, rate)) * per
  end

  function meter.more_after() return more_than(free, rate, per, now, debt) end

  function meter.append_waits(reply)
    local answer, short = append_waits(reply, runs, rate, free, per, now, debt)
    if noting and short then note_counted(rate, free, newest) end
    return answer
  end

  return meter
end
