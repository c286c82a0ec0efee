-- Ends a group with its last limiter: writes what the fast paths decided, or runs the general decision.
--
-- KEYS[1..3], ARGV[1..7]  of each limiter: see limiter.lua
ready = ready and reply
if LIMITERS > 1 then replies[n] = reply else only = reply end
if ready and not alone then
  plans = plans or {}
  plans[n] = { member, score, gone, expired, left, fresh, state, lasts, renews, beaten, per, keep_alive }
end
if last and ready then
  for m = first, n do
    local hash = KEYS[m * 3 - 2]
    if not alone then
      member, score, gone, expired, left, fresh, state, lasts, renews, beaten, per, keep_alive =
        unpack(plans[m], 1, 12)
    end
    local idle, own, at = keep_alive, m * 7 - 6, now
    -- The server's own text, because formatting a number is slow.
    if score == now and time and #time[2] == 6 then
      at = time[1] .. string.sub(time[2], 1, 3)
    end
    if fresh then
      local origin = ARGV[own + 4]
      local lifetime, revision = string.match(origin, '^(%d+) ?(%d*)$', 16)
      local digits = redis.sha1hex(ARGV[own + 1] .. '/' .. ARGV[own + 2] .. '/' .. ARGV[own + 3])
      local name = struct.pack('>I4', tonumber(string.sub(digits, 1, 8), 16)) -- `name_of`
      -- The fields of a small hash are searched in order; the first is the one that every grant writes.
      redis.call('HSET', hash, state and 'state' or 'type', state or '0', 'rate', ARGV[own + 1],
        'interval', ARGV[own + 2], 'type', '0', 'keepAliveTime', lifetime, 'epoch',
        struct.pack('<I6', now) .. string.sub(origin, 1, 15) .. name .. revision, unpack(fresh))
    elseif state and beaten then
      redis.call('HSET', hash, 'state', state, 'epoch', beaten)
    elseif state then
      redis.call('HSET', hash, 'state', state)
    elseif beaten then
      redis.call('HSET', hash, 'epoch', beaten)
    end
    local counter, renewed
    if member then
      counter = KEYS[m * 3 - 1]
      -- All three keys expire together: never before the permits in use are free again, and a
      -- quarter later, so that few grants need to renew the expiry.
      local counts = per + (per < 100 and 1 or (per - per % 50) / 50)
      if idle > 0 and idle < counts then idle = counts end
      local ttl = idle > 0 and not fresh and redis.call('PTTL', counter)
      renewed = idle > 0 and (fresh or ttl < idle or ttl > idle + idle / 4)
    elseif renews and idle > 0 and (renews == 0 or state and lasts >= renews) then
      renewed = true
      if idle <= lasts then idle = lasts + 1 end
    end
    if renewed and idle ~= expiry then
      expiry, expiry_text = idle, string.format('%d', math.min(idle + math.floor(idle / 4), 2 ^ 52))
    end
    if member then
      local log = KEYS[m * 3]
      redis.call('ZADD', log, score == now and at or score, member)
      -- Not earlier: a log that is empty for a moment loses its expiry.
      if gone then redis.call('ZREM', log, gone) end
      if expired > 0 then redis.call('ZREMRANGEBYRANK', log, 0, expired - 1) end
      if fresh and renewed then
        redis.call('SET', counter, string.format('%d', left), 'PX', expiry_text)
      elseif left then
        redis.call('SET', counter, string.format('%d', left), 'KEEPTTL')
      end
      if renewed then
        if not fresh then redis.call('PEXPIRE', counter, expiry_text) end
        redis.call('PEXPIRE', log, expiry_text)
      end
    end
    if renewed then redis.call('PEXPIRE', hash, expiry_text) end
  end
elseif last then
  decide(first, n, alone and settled and windowed and not (beaten or asserts) and stored, text)
end
if last then first, ready = n + 1, true end
