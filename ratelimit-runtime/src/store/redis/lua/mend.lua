-- Repairs what peers leave in the log: too many members, and wrong dates.
--
-- KEYS[1]  hash  `counted`: see below; `compacted`: up to which time members were merged
-- KEYS[3]  zset  the log
-- Merges members of one time bucket into one, dated at the bucket's end, so that a Java peer's log
-- with one member per call is compacted in bounded steps.
local function compact(entries, bucket, now)
  local merged, old = {}, {}
  for _, entry in ipairs(entries) do
    local score = math.ceil(entry.score / bucket) * bucket
    local last = merged[#merged]
    if entry.score > now - bucket then break end
    if last and last.score == score and last.permits + entry.permits <= 4294967295 then
      last.permits, last.count = last.permits + entry.permits, last.count + 1
    else
      merged[#merged + 1] = { score = score, permits = entry.permits, count = 1, member = entry.member }
    end
    old[#old + 1] = entry.member
  end
  if #merged == #old then return end
  redis.call('HSET', KEYS[1], 'compacted', decimal(math.floor(now - bucket)))
  redis.call('ZREM', KEYS[3], unpack(old))
  for _, entry in ipairs(merged) do
    redis.call('ZADD', KEYS[3], entry.score,
      string.sub(entry.member, 1, -5) .. struct.pack('<I', entry.permits))
  end
end

-- If the clock stepped back, or a peer's is wrong, members dated later than `latest` count from
-- now. Returns how far in the future they were.
local function restamp(now, latest)
  local newest = tonumber(newest_score())
  if not newest or newest <= latest then return 0 end
  for _, entry in ipairs(read_log()) do
    if entry.score > latest then redis.call('ZADD', KEYS[3], now, entry.member) end
  end
  return math.ceil(newest - now)
end

-- The hash notes the counter and the newest member that were last found to agree with the whole
-- log. As long as both are unchanged, the log is too, and a rejection need not count it again.
local function note_of(rate, counter, newest)
  return decimal(rate) .. ' ' .. counter .. ' ' .. (newest or 'none')
end

local function note_counted(rate, free, newest)
  local note = note_of(rate, decimal(free), newest)
  if redis.call('HGET', KEYS[1], 'counted') ~= note then
    redis.call('HSET', KEYS[1], 'counted', note)
  end
end

local function is_counted(rate, counter, latest)
  local newest = newest_score()
  return newest and tonumber(newest) <= latest
    and redis.call('HGET', KEYS[1], 'counted') == note_of(rate, counter, newest)
end
