-- Fast path for sliding windows: permits are plenty; or none can be free since the log was last
-- counted; or the limiter is new. See steady.lua.
--
-- Rounds by remainders, because each function call costs more than a line.
--
-- KEYS[1..3], ARGV[1..7]  of the limiter: see limiter.lua, sliding.lua
if windowed and ready then
  local id, taken = ARGV[word + 6], cost and cost * count
  if settled and cost then
    text = redis.pcall('GET', KEYS[key + 1])
    local oldest = redis.pcall('ZRANGE', KEYS[key + 2], '0', '1', 'WITHSCORES')
    local counter, start, bucket, over = tonumber(text), now - per, (per - per % 50) / 50, false
    if bucket < 1 then bucket = 1 end
    local free = counter
    local whole = free and free % 1 == 0 and free <= rate and oldest[1]
    -- The time of the oldest grant that still counts.
    local next_at = tonumber(oldest[2])
    if whole and next_at <= start then
      -- A short log that agrees with the counter: members that are a window old are free again.
      local log, used = oldest, 0
      next_at = nil
      if oldest[3] then log = redis.call('ZRANGE', KEYS[key + 2], '0', '16', 'WITHSCORES') end
      over, whole = true, #log <= 32
      for i = 1, #log, 2 do
        local entry, at = log[i], tonumber(log[i + 1])
        whole = whole and #entry > 4 and string.byte(entry) + 5 == #entry and at <= now + bucket
        if not whole then break end
        local permits = struct.unpack('<I', entry, #entry - 3)
        used = used + permits
        if at <= start then
          expired, free = expired + 1, free + permits
        else
          next_at = next_at or at
        end
        if expired == 1 and permits == taken then member = entry end
      end
      whole = whole and counter + used == rate
      -- The only grant, of as many permits, gets a new date. Others are written before.
      if oldest[3] or not whole then member = nil end
      if member then expired = 0 end
    end

    if whole and taken + cost <= free then
      score = now
      -- Each member is at least one permit. 64 is MERGE_AT of log.lua.
      if not over and rate - free >= 64 and redis.call('ZCARD', KEYS[key + 2]) >= 64 then
        score = math.ceil(now / bucket) * bucket
        local newest = redis.call('ZRANGE', KEYS[key + 2], '-1', '-1', 'WITHSCORES')
        local entry, sound = newest[1], #newest[1] > 4 and string.byte(newest[1]) + 5 == #newest[1]
        local already = sound and struct.unpack('<I', entry, #entry - 3)
        if already and tonumber(newest[2]) == score and already + taken <= 4294967295 then
          member, gone = string.sub(entry, 1, -5) .. struct.pack('<I', already + taken), entry
        end
      end
      member = member or struct.pack('<Bc0I', #id, id, taken)
      left = free - taken
      if left == counter then left = nil end
      if not next_at or next_at > score then next_at = score end
      reply = struct.pack(PACKED, event, free, score - start, now, next_at + -next_at % 1 - start, 0, 0)
    elseif alone and whole and not over and free >= 0 and free < cost and cost <= rate then
      local newest = redis.call('ZRANGE', KEYS[key + 2], '-1', '-1', 'WITHSCORES')[2]
      if tonumber(newest) <= now + bucket
        and redis.call('HGET', KEYS[key], 'counted') == stored[1] .. ' ' .. text .. ' ' .. newest then
        local need, from = cost - free, 2
        while oldest[1] and not reply do
          for i = 1, #oldest, 2 do
            need = need - (#oldest[i] > 4 and struct.unpack('<I', oldest[i], #oldest[i] - 3) or 0)
            if need <= 0 then
              reply = struct.pack(PACKED, event, free, math.ceil(tonumber(newest)) + per - now, now,
                math.ceil(next_at) + per - now, 0,
                math.ceil(tonumber(oldest[i + 1])) + per - now)
              break
            end
          end
          if not reply then
            oldest = redis.call('ZRANGE', KEYS[key + 2], from, from + 15, 'WITHSCORES')
            from = from + 16
          end
        end
      end
    end
    -- A value that is not a counter is read again, where that may fail.
    if type(text) == 'table' then text = nil end

  elseif fresh and taken + cost <= rate then
    score, left = now, rate - taken
    member = struct.pack('<Bc0I', #id, id, taken)
    reply = struct.pack(PACKED, event, rate, per, now, per, 0, 0)
  end
end
