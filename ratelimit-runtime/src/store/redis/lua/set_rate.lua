-- Sets a configuration explicitly, as Redisson's trySetRate, setRate and updateRate do: a change
-- from outside, see history.lua.
--
-- KEYS[1..3]  hash, counter, log: see hash.lua, meter.lua, log.lua
-- ARGV[1]  integer  rate, permits per window
-- ARGV[2]  integer  window, ms
-- ARGV[3]  mode and algorithm, as for limiter.lua
-- ARGV[4]  integer  keep-alive, ms; 0 for none
-- ARGV[5]  when, and the state: `absent`, `present` or `always`, then `/reset` or `/keep`
-- ARGV[6]  integer  for how long it is held, ms; 0 for not at all
-- ARGV[7]  an id for a new log member
--
-- Returns 1 when it was written, else 0.
local config = { rate = tonumber(ARGV[1]), per = tonumber(ARGV[2]), keep_alive = tonumber(ARGV[4]) }
read_rule(config, ARGV[3])
local stored, whole = stored_config()
local when, state = string.match(ARGV[5], '^(%l+)/(%l+)$')
if (when == 'absent' and whole) or (when == 'present' and not whole) then return 0 end

-- Read before anything is written: a key of another type raises here.
redis.call('GET', KEYS[2])
redis.call('ZCARD', KEYS[3])
local keep = state == 'keep' and stored.mode == config.mode and config.mode == '0'
if not keep then forget_state(stored) elseif whole then pay_stored(stored, now) end
config.debt, config.owes, config.state = stored.debt, stored.owes, stored.state
local numbers, held = numbers_of(config), tonumber(ARGV[6])
if whole and numbers_of(stored) ~= numbers then
  remember(name_of(numbers_of(stored)), name_of(numbers), stored, now)
end
write_config(config, stored)
date_change(now * 1000 + micros, held > 0 and now + held or 0, numbers)
renew(config, config.state and lasts_for(config.state, now) or 0)
if config.keep_alive == 0 and stored.keep_alive > 0 then
  for i = 1, config.algorithm and 1 or 3 do redis.call('PERSIST', KEYS[i]) end
end
-- The state of any other rule is read by the next call, under the rule that is active then.
if keep and config.algorithm then
  forget_counter()
elseif keep and not config.state then
  local counter = moved_counter(config, stored)
  local dropped = pay_as_freed(config, now) or 0
  local expired, released = over(config.per, now)
  drop(expired or 0)
  local free = counter_of_log(config, counter and counter + dropped + (released or 0))
  if free then store_counter(pay_now(config, free, now), config) end
end
return 1
