-- Mends what peers leave in the log: too many members, and wrong dates.
--
-- KEYS[3]  zset  the log
-- Merges members of one time bucket into one, dated at the bucket's end, so that
-- the log a Java peer wrote one member a call gets short in bounded steps.
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
  redis.call('ZREM', KEYS[3], unpack(old))
  for _, entry in ipairs(merged) do
    redis.call('ZADD', KEYS[3], entry.score,
      string.sub(entry.member, 1, -5) .. struct.pack('<I', entry.permits))
  end
end

-- Makes what is dated later than `latest` count from now.
local function restamp(entries, now, latest)
  for _, entry in ipairs(entries) do
    if entry.score > latest then
      redis.call('ZADD', KEYS[3], now, entry.member)
      entry.score = now
    end
  end
  table.sort(entries, function(a, b) return a.score < b.score end)
end
