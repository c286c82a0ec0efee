-- Decides what most calls come down to in the fewest steps: requests of one cost
-- each, for numbers that are stored just so, when nothing expired,
-- or all there was, and the permits are plenty; or when none can be free since the
-- log was last counted.
--
-- KEYS[1..3], ARGV[1..9]  as for acquire.lua
--
-- Returns what acquire.lua returns, or goes on to it with nothing written but that
-- the numbers were vouched for, and what was read: `stored` from the hash, `settled` when there is nothing to reconcile,
-- and perhaps the counter's `text`. Every call makes the functions of a script
-- anew, so there are none up to here.
local cost, count = tonumber(ARGV[1]), 1
if not cost then
  cost, count = string.match(ARGV[1], '^(%d+)%*(%d+)$')
  cost = tonumber(cost)
end
local stored = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', 'vouched',
  'algorithm', 'debt')
local same = stored[1] == ARGV[2] and stored[2] == ARGV[3] and stored[3] == ARGV[4]
local rate, per = tonumber(stored[1]), tonumber(stored[2])
local settled = (ARGV[8] == 'following' or (ARGV[8] == 'steady' and same))
  and stored[3] == '0' and not stored[6] and not stored[7] and rate and per
  and rate % 1 == 0 and rate < 2 ^ 53 and per % 1 == 0 and per >= 1
if settled and ARGV[8] == 'steady' then
  -- A process vouches for the stored numbers every ten seconds.
  local vouched = tonumber(stored[5])
  if not vouched or now < vouched or now >= vouched + 10000 then
    redis.call('HSET', KEYS[1], 'vouched', now)
  end
end

local text
if settled and cost then
  text = redis.call('GET', KEYS[2])
  local oldest = redis.call('ZRANGE', KEYS[3], '0', '1', 'WITHSCORES')
  local free, bucket = tonumber(text), math.max(1, math.floor(per / 50))
  local whole = free and free % 1 == 0 and free <= rate and oldest[1]
  local over = whole and tonumber(oldest[2]) <= now - per
  local taken, score, member, gone = cost * count, now, nil, nil
  local rule = ARGV[4] == '0' and 0 or '0'

  if whole and not over and taken + cost <= free then
    member = struct.pack('<Bc0I', #ARGV[9], ARGV[9], taken)
    -- Each member is a permit at the least. 64 is MERGE_AT of log.lua.
    if rate - free >= 64 and redis.call('ZCARD', KEYS[3]) >= 64 then
      score = math.ceil(now / bucket) * bucket
      local newest = redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')
      local last, sound = newest[1], #newest[1] > 4 and string.byte(newest[1]) + 5 == #newest[1]
      local already = sound and struct.unpack('<I', last, #last - 3)
      if already and tonumber(newest[2]) == score and already + taken <= 4294967295 then
        redis.call('ZREM', KEYS[3], last)
        member = string.sub(last, 1, -5) .. struct.pack('<I', already + taken)
      end
    end
  elseif over and not oldest[3] and taken + cost <= rate then
    -- A key that is used now and then: its one grant is over. One of as many
    -- permits is dated anew.
    local last, sound = oldest[1], #oldest[1] > 4 and string.byte(oldest[1]) + 5 == #oldest[1]
    local used = sound and struct.unpack('<I', last, #last - 3)
    if used and free + used == rate then
      free, member = rate, last
      if used ~= taken then
        member, gone = struct.pack('<Bc0I', #ARGV[9], ARGV[9], taken), last
      end
    end
  end

  if member then
    redis.call('ZADD', KEYS[3], score, member)
    -- Not before: a log that is empty for a moment loses its expiry.
    if gone then redis.call('ZREM', KEYS[3], gone) end
    if free - taken ~= tonumber(text) then redis.call('SET', KEYS[2], free - taken, 'KEEPTTL') end
    local keep_alive = tonumber(stored[4]) or 0
    if keep_alive > 0 then
      -- All three were set together, and for a quarter longer than they are to be
      -- kept, so that few grants need to set them again.
      local idle, ttl = math.max(keep_alive, per + bucket), redis.call('PTTL', KEYS[2])
      if ttl < idle or ttl > idle + idle / 4 then
        for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], idle + math.floor(idle / 4)) end
      end
    end
    return { 1, free, score + per - now, now, rate, per, rule, 0, 0, 0 }

  elseif whole and not over and free < cost and cost <= rate then
    local newest = redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')[2]
    if tonumber(newest) <= now + bucket
      and redis.call('HGET', KEYS[1], 'counted') == stored[1] .. ' ' .. text .. ' ' .. newest then
      local need, from = cost - free, 2
      while oldest[1] do
        for i = 1, #oldest, 2 do
          need = need - struct.unpack('<I', oldest[i], #oldest[i] - 3)
          if need <= 0 then
            return { 1, math.max(0, free), math.ceil(tonumber(newest)) + per - now, now,
              rate, per, rule, 0, 0, math.ceil(tonumber(oldest[i + 1])) + per - now }
          end
        end
        oldest = redis.call('ZRANGE', KEYS[3], from, from + 15, 'WITHSCORES')
        from = from + 16
      end
    end
  end
end
