-- Counts a sliding window by its log and counter, as a meter.
--
-- KEYS[1]  hash    the configuration, what was `counted` (see mend.lua), and the `debt`
-- KEYS[2]  string  the counter
-- KEYS[3]  zset    the log
-- ARGV[6]  as for limiter.lua
-- ARGV[7]  bytes   an id for a new member

-- Returns the meter of a log, updated for these runs, or nil if the state has an unsupported
-- format. What it takes is one grant, written when it is stored. Reads the counter, unless it is
-- `text`.
local function sliding_meter(config, text, runs, event, now)
  local rate, per = config.rate, config.per
  if text == nil then text = read_counter(config, ARGV[7], now) end
  if text == nil or (text and not tonumber(text)) then return nil end
  local bucket, dropped = bucket_of(per), pay_as_freed(config, now)
  if not dropped then return nil end
  local debt, free = config.debt, integer(text)
  local wanted = sum_of(runs, rate) + debt

  -- Members older than a window are free again, a bounded number at once.
  local expired, released = 0, 0
  local fresh = not text and redis.call('ZCARD', KEYS[3]) == 0
  if not fresh then expired, released = over(per, now) end
  if not expired then return nil end
  free = fresh and rate or free and free + released + dropped
  local changed, agreed, members, ahead = fresh or expired + dropped > 0, false, 0, 0
  -- A new configuration and usage that counts from now renew the keep-alive, as a grant does.
  local renews = config.is_new or not text

  -- A counter of another configuration: above the rate, or in a process that follows and used
  -- another one so far.
  local doubtful = not free or free > rate or expired > 0 or event ~= NOTHING
    or ARGV[6] == 'follow' or tonumber(ARGV[2]) ~= rate or tonumber(ARGV[3]) ~= per
  if not fresh and (doubtful or (free < wanted and not is_counted(rate, text, now + bucket))) then
    -- Checked before anything is written: an unsupported format is left alone.
    local used, whole
    used, whole, members = count(expired)
    if not used then return nil end
    drop(expired)
    agreed = whole
    if not whole then
      -- A long log, written by a peer, is compacted before it is counted.
      compact(read_log(), bucket, now)
      free, changed = math.min(rate - used, free or 0), true
    elseif not free or free + used >= rate or event == CARRIED then
      changed = changed or free ~= rate - used
      free = rate - used
    else
      -- The log lost permits that the counter includes: they count from now. One member holds them,
      -- and of a counter that is even lower, as many as it can.
      local lost = math.min(rate - used - free, 4294967295)
      redis.call('ZADD', KEYS[3], now, struct.pack('<Bc0I', #ARGV[7] + 1, ARGV[7] .. '?', lost))
      free, changed, renews = rate - used - lost, true, true
    end
    if whole and used > 0 and (expired > 0 or free < wanted) then ahead = restamp(now, now + bucket) end
  end

  local meter = { capacity = rate, ahead = ahead }
  -- Debt is paid with free permits, such as released ones: taken now.
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
    if taken > 0 then score = record(taken, rate, bucket, now) end
    if taken > 0 or debt > owed or renews then
      store_counter(free, config)
    elseif changed or debt < owed then
      keep_counter(free)
    end
    -- A grant leaves the note to the first rejection, unless it had many members to count.
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
