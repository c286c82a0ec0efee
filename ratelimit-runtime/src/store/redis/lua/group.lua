-- The general decision for a group: each caller takes from all its limiters or from none.
--
-- KEYS[1..3], ARGV[1..7]  of each limiter in turn: see limiter.lua

local function turn_to(n)
  if #ALL_KEYS == 3 then return end
  KEYS = { unpack(ALL_KEYS, n * 3 - 2, n * 3) }
  ARGV = { unpack(ALL_ARGV, n * 7 - 6, n * 7) }
  ARGV[9] = ALL_ARGV[#ALL_KEYS / 3 * 7 + 2]
end

-- Everything is read before anything is written: a key of another type, or missing windows of a
-- calendar, end a group with nothing done.
local function read_group(from, to)
  local found = {}
  for n = from, to do
    turn_to(n)
    local own = own_config(ARGV)
    if lacks_window(own, now) then return nil, own end
    local stored, whole = stored_config()
    if to > from and whole and stored.mode == '0' and lacks_window(stored, now) then
      return nil, stored
    end
    found[n] = { own = own, stored = stored, whole = whole }
    if to > from and not (stored.algorithm and stored.state) then
      found[n].text = redis.call('GET', KEYS[2])
      redis.call('ZCARD', KEYS[3])
    end
  end
  return found
end

-- Decides the limiters from one to another, or returns the obstacle. For a single limiter, the
-- `fields` of its settled configuration and its counter may be known.
local function decide_group(from, to, fields, text)
  local found, lacking
  if not fields then found, lacking = read_group(from, to) end
  local limiters, counted = {}, true
  for n = from, lacking and 0 or to do
    turn_to(n)
    local config, event = nil, NOTHING
    if fields then
      config = { rate = integer(fields[1]), per = integer(fields[2]), mode = '0', burst = 0,
        warm_up = 0, debt = 0, keep_alive = integer(fields[4]) or 0 }
    else
      local limiter = found[n]
      config, event = reconcile(limiter.own, now, limiter.stored, limiter.whole)
      if event == NOTHING and not limiter.stored.state then text = limiter.text else text = nil end
    end
    -- The calendar of a configuration that we follow: nothing has been written so far.
    lacking = config and config.mode == '0' and lacks_window(config, now) and config
    if lacking then break end
    limiters[#limiters + 1] = open(config, event, text)
    counted = counted and limiters[#limiters].meter
  end
  if lacking then return { NO_WINDOW, 0, 0, now, 0, 0, rule_of(lacking) } end
  if counted then take_all(limiters) end
  for n = from, to do
    turn_to(n)
    replies[n] = commit(limiters[n - from + 1])
  end
end

-- Parts of the errors that one limiter's keys cause: a key of another type, or a state or number
-- that no limiter writes.
local OWN_ERRORS = { 'WRONGTYPE', 'not an integer', 'not a valid float', 'invalid expire' }

local function is_own(why, is_lua)
  for _, part in ipairs(OWN_ERRORS) do
    if string.find(why, part, 1, true) then return true end
  end
  return is_lua
    and (string.find(why, 'attempt to ', 1, true) or string.find(why, 'bad argument', 1, true))
end

-- An error of one group fails that group alone. An error that the server returns to every client is raised.
return function(from, to, fields, text)
  local sound, obstacle = pcall(decide_group, from, to, fields, text)
  if not sound then
    -- Before Redis 7 an error is a text.
    local why = type(obstacle) == 'table' and obstacle.err or tostring(obstacle)
    if not is_own(why, type(obstacle) == 'string') then error(obstacle, 0) end
    obstacle = { FAILED, why }
  end
  for n = from, obstacle and to or 0 do replies[n] = obstacle end
end
