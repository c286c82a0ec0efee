-- Pays the debt of a sliding window with the permits of its log.
--
-- KEYS[1]  hash   the configuration, and the `debt`: see hash.lua
-- KEYS[3]  zset   the log
-- ARGV[7]  bytes  an id for a new member

-- Debt takes the permits of these entries as they become free, dated then, once each and for whole
-- windows. Returns the remaining debt, the permits left over of an entry that paid in part, and, if
-- more permits than the rate were in use, the entries that still are.
local function pay_once(entries, debt, rate, per, now)
  local used, left_over, kept = 0, 0, {}
  for _, entry in ipairs(entries) do used = used + entry.permits end
  local exceeds = used > rate
  if used > 0 and not exceeds then
    -- Windows in which the whole log pays, all at once.
    local passed = math.floor((now - math.ceil(entries[#entries].score)) / per)
    local windows = math.max(0, math.min(passed, math.floor(debt / used)))
    debt = debt - windows * used
    for _, entry in ipairs(entries) do entry.score = entry.score + windows * per end
  end
  for _, entry in ipairs(entries) do
    local is_over = debt > 0 and entry.score <= now - per
    if is_over then
      used = used - entry.permits
      local paid = math.min(entry.permits, debt, math.max(0, rate - used))
      if paid > 0 then
        left_over = left_over + entry.permits - paid
        debt, used = debt - paid, used + paid
        entry.permits, entry.score = paid, entry.score + per
        is_over = false
      end
    end
    if not is_over then kept[#kept + 1] = entry end
  end
  return debt, left_over, exceeds and kept
end

-- Pays so that the debt is paid in the same time whether calls arrive or not. Changes only the entries
-- that pay. Returns the remaining debt, and the permits left over.
local function pay_with(entries, debt, rate, per, now)
  local owed, left_over, kept = pay_once(entries, debt, rate, per, now)
  if owed == 0 or not kept then return owed, left_over end
  -- No more than the rate is in use now, so that whole windows can pay.
  table.sort(kept, function(one, other) return one.score < other.score end)
  local rest, more = pay_once(kept, owed, rate, per, now)
  return rest, left_over + more
end

-- Does so in the stored log, except in a long one, which a peer wrote. Returns the permits left
-- over, or nil if a member has an unsupported format.
local function pay_as_freed(config, now)
  local debt = config.debt
  if debt == 0 or config.rate == 0 then return 0 end
  local entries = read_log()
  if not entries then return nil end
  if #entries == 0 or #entries == WALK then return 0 end
  local before = {}
  for n, entry in ipairs(entries) do before[n] = entry.score end
  local owed, left_over = pay_with(entries, debt, config.rate, config.per, now)
  for n, entry in ipairs(entries) do
    if entry.score ~= before[n] then
      local member = string.sub(entry.member, 1, -5) .. struct.pack('<I', entry.permits)
      redis.call('ZADD', KEYS[3], entry.score, member)
      if member ~= entry.member then redis.call('ZREM', KEYS[3], entry.member) end
    end
  end
  store_debt(config, owed)
  return left_over
end

-- Debt takes permits that are free now, such as refunded ones, as one entry. Returns how many of
-- them are left.
local function pay_now(config, free, now)
  local paid = math.min(config.debt, math.max(0, free))
  if paid > 0 then
    record(paid, config.rate, bucket_of(config.per), now)
    store_debt(config, config.debt - paid)
  end
  return free - paid
end
