-- Reconciles our configuration with the stored one.
--
-- KEYS[1]  hash     the configuration: see hash.lua
-- KEYS[2]  string   the counter: see forget.lua
-- KEYS[3]  zset     the log, likewise
local NOTHING, CREATED, UNCHANGED, RESET, CARRIED, FOLLOWED = 0, 1, 2, 3, 4, 5
-- Heartbeat interval (ms), and the time without a heartbeat (ms) after which a stored
-- configuration is abandoned.
local HEARTBEAT, ABANDONED_AFTER = 10000, 30000

-- Our configuration keeps the usage. A heartbeat renews the expiry: see steady.lua.
local function write_own(own, stored, now)
  own.debt, own.owes, own.state = stored.debt, stored.owes, stored.state
  own.renews, own.is_new = true, true
  write_config(own, stored)
  redis.call('HSET', KEYS[1], 'epoch', epoch_of(own, now))
  if stored.changed ~= '' then redis.call('HDEL', KEYS[1], 'changed') end
end

-- Announces a configuration that is already stored. A keep-alive of a peer stays if we have none.
local function announce(own, stored, now)
  if own.keep_alive > 0 then
    stored.is_new = own.keep_alive ~= stored.keep_alive
    stored.keep_alive = own.keep_alive
  end
  stored.renews = true
  redis.call('HSET', KEYS[1], 'epoch', epoch_of(own, now), 'keepAliveTime', decimal(stored.keep_alive))
  if stored.changed ~= '' then redis.call('HDEL', KEYS[1], 'changed') end
end

-- At most one reset per window, for a configuration that is new to the key.
local function may_reset(own, stored, now)
  local last = integer(redis.call('HGET', KEYS[1], 'reset'))
  local cool = not last or now < last or now - last >= math.max(stored.per, own.per)
  return cool and not is_recent(name_of(numbers_of(own)), stored, now)
end

-- Returns what reconciliation does with a complete stored configuration, and changes nothing: the
-- outcome, and what it depends on. Another mode counts elsewhere, so usage cannot be carried over to it.
local function judge(own, now, stored)
  local numbers_stored, epoch = numbers_of(stored), read_epoch(stored.epoch)
  local verdict = { event = NOTHING, epoch = epoch }
  local same = numbers_stored == numbers_of(own)
  if own.follows or (same and not own.asserting) then return verdict end

  local change = change_of(stored, epoch, numbers_stored, own.asserting, now)
  verdict.change, verdict.newer = change, is_newer(own, epoch, change, now)
  -- Only a member knows whether the process that announced it is still alive.
  local silent = epoch and not change and now - epoch.beat >= ABANDONED_AFTER
  local abandoned = silent and (not own.member or not epoch.by or own.abandons == epoch.by)
  if same then
    verdict.event = UNCHANGED
  elseif verdict.newer or abandoned then
    local resets = verdict.newer and own.asserting and not change and own.on_drift == 'reset'
    verdict.is_reset = resets and may_reset(own, stored, now)
    verdict.event = (verdict.is_reset or own.mode ~= stored.mode) and RESET or CARRIED
  else
    verdict.event, verdict.announcer = FOLLOWED, silent and epoch.by
  end
  return verdict
end

-- Replaces the stored configuration with our own.
local function take_over(own, stored, event, is_reset, now)
  local replaced, name = numbers_of(stored), name_of(numbers_of(own))
  own.replaced = replaced
  if event == RESET then
    forget_state(stored)
  else
    pay_stored(stored, now)
    move_counter(own, stored)
  end
  if is_reset then redis.call('HSET', KEYS[1], 'reset', now) end
  write_own(own, stored, now)
  remember(name_of(replaced), name, stored, now)
  if stored.keep_alive > 0 and own.keep_alive == 0 then
    for i = 1, own.algorithm and 1 or 3 do redis.call('PERSIST', KEYS[i]) end
  end
  return own
end

-- Returns the active configuration, and what happened; no configuration if none is stored and the
-- process has none of its own. `stored` and `whole` are the results of `stored_config`.
local function reconcile(own, now, stored, whole)
  if whole and stored.repaired then
    stored.keep_alive = own.follows and 0 or own.keep_alive
    redis.call('HSET', KEYS[1], 'keepAliveTime', decimal(stored.keep_alive))
  end
  if not whole then
    if own.follows then return nil, NOTHING end
    forget_counter()
    write_own(own, stored, now)
    return own, CREATED
  end

  local verdict = judge(own, now, stored)
  local event, epoch, change = verdict.event, verdict.epoch, verdict.change
  if change then record_change(change, epoch, stored, now) end
  if event == RESET or event == CARRIED then
    return take_over(own, stored, event, verdict.is_reset, now), event
  elseif event == UNCHANGED then
    if verdict.newer then announce(own, stored, now) end
  elseif event == FOLLOWED then
    stored.announcer = verdict.announcer
  elseif not own.follows then
    stored.renews = not epoch or now - epoch.beat >= HEARTBEAT or now < epoch.beat
    if epoch and stored.renews then redis.call('HSET', KEYS[1], 'epoch', beaten(stored.epoch, now)) end
  end
  return stored, event
end

-- Reads our own configuration from the arguments; see each script's header.
local function own_config(arguments)
  local keep_alive, revision = string.match(arguments[5], '^(%d+) ?(%d*)$', 16)
  local origin, how = string.sub(arguments[5], 1, 15), arguments[6]
  return read_rule({
    rate = tonumber(arguments[2]), per = tonumber(arguments[3]), keep_alive = tonumber(keep_alive),
    origin = origin, revision = tonumber(revision) or 0, since = struct.unpack('<I7', origin),
    member = string.sub(origin, 8) ~= string.rep('\0', 8),
    on_drift = how, abandons = string.match(how, '^abandon (%x+)$'),
    asserting = how == 'reset' or how == 'carry', follows = how == 'follow' or how == 'following',
  }, arguments[4])
end
