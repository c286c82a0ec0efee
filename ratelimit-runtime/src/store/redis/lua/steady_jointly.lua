-- Decides what most calls for several limiters come down to, in the fewest steps: grants
-- of sliding windows by numbers that are stored just so, when the permits are plenty, and
-- nothing expired or the log is short. See steady.lua, which does it for one.
--
-- ALL_KEYS[1..], ALL_ARGV[1..]  of each limiter: see limiters.lua
--
-- Returns what acquire_jointly.lua returns, or goes on to it with nothing written. Every
-- call makes the functions of a script anew, so there are none up to here.
local grants, ready = {}, true
for n = 1, LIMITERS do
  local key, word = n * 3 - 2, n * 9 - 8
  local cost, count = tonumber(ALL_ARGV[word]), 1
  if not cost then
    cost, count = string.match(ALL_ARGV[word], '^(%d+)%*(%d+)$')
    cost = tonumber(cost)
  end
  local rate, per, id = tonumber(ALL_ARGV[word + 1]), tonumber(ALL_ARGV[word + 2]), ALL_ARGV[word + 8]
  local stored = redis.call('HMGET', ALL_KEYS[key], 'rate', 'interval', 'type', 'keepAliveTime',
    'vouched', 'algorithm', 'debt')
  ready = cost and ALL_ARGV[word + 7] == 'steady' and ALL_ARGV[word + 3] == '0' and stored[3] == '0'
    and stored[1] == ALL_ARGV[word + 1] and stored[2] == ALL_ARGV[word + 2] and not stored[6]
    and not stored[7]
  if not ready then break end

  local free = tonumber(redis.call('GET', ALL_KEYS[key + 1]))
  local oldest = redis.call('ZRANGE', ALL_KEYS[key + 2], '0', '0', 'WITHSCORES')
  local taken, vouched = cost * count, tonumber(stored[5])
  local bucket, expired = math.max(1, math.floor(per / 50)), 0
  ready = oldest[1] and free and free % 1 == 0 and free <= rate
  if ready and tonumber(oldest[2]) <= now - per then
    -- A short log that agrees with the counter; what is a window old is free again.
    local log, used = redis.call('ZRANGE', ALL_KEYS[key + 2], '0', '16', 'WITHSCORES'), 0
    for i = 1, #log, 2 do
      local member, at = log[i], tonumber(log[i + 1])
      ready = #member > 4 and string.byte(member) + 5 == #member and at <= now + bucket
      if not ready then break end
      local permits = struct.unpack('<I', member, #member - 3)
      if at <= now - per then
        expired, free = expired + 1, free + permits
      else
        used = used + permits
      end
    end
    ready = ready and #log <= 32 and free + used == rate
  end
  ready = ready and taken + cost <= free
  if not ready then break end

  local score, member, merged = now, struct.pack('<Bc0I', #id, id, taken), nil
  -- Each member is a permit at the least. 64 is MERGE_AT of log.lua.
  if expired == 0 and rate - free >= 64 and redis.call('ZCARD', ALL_KEYS[key + 2]) >= 64 then
    score = math.ceil(now / bucket) * bucket
    local newest = redis.call('ZRANGE', ALL_KEYS[key + 2], '-1', '-1', 'WITHSCORES')
    local last, sound = newest[1], #newest[1] > 4 and string.byte(newest[1]) + 5 == #newest[1]
    local already = sound and struct.unpack('<I', last, #last - 3)
    if already and tonumber(newest[2]) == score and already + taken <= 4294967295 then
      member, merged = string.sub(last, 1, -5) .. struct.pack('<I', already + taken), last
    end
  end
  grants[n] = {
    rate = rate, per = per, free = free, taken = taken, expired = expired,
    score = score, member = member, merged = merged,
    vouched = vouched and vouched <= now and now < vouched + 10000,
    keep_alive = tonumber(stored[4]) or 0,
  }
end

if ready then
  local replies = {}
  for n, grant in ipairs(grants) do
    local key, free, per = n * 3 - 2, grant.free, grant.per
    if not grant.vouched then redis.call('HSET', ALL_KEYS[key], 'vouched', now) end
    -- First what is new: a log that is empty for a moment loses its expiry.
    redis.call('ZADD', ALL_KEYS[key + 2], grant.score, grant.member)
    if grant.merged then redis.call('ZREM', ALL_KEYS[key + 2], grant.merged) end
    if grant.expired > 0 then
      redis.call('ZREMRANGEBYRANK', ALL_KEYS[key + 2], 0, grant.expired - 1)
    end
    redis.call('SET', ALL_KEYS[key + 1], free - grant.taken, 'KEEPTTL')
    if grant.keep_alive > 0 then
      local idle = math.max(grant.keep_alive, per + math.max(1, math.floor(per / 50)))
      local ttl = redis.call('PTTL', ALL_KEYS[key + 1])
      if ttl < idle or ttl > idle + idle / 4 then
        for i = key, key + 2 do redis.call('PEXPIRE', ALL_KEYS[i], idle + math.floor(idle / 4)) end
      end
    end
    replies[n] = { 1, free, grant.score + per - now, now, grant.rate, per, 0, 0, 0, 0 }
  end
  return replies
end
