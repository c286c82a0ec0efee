-- Writes a configuration on purpose, as Redisson's trySetRate, setRate and
-- updateRate do: it stays until a process starts that is configured otherwise.
--
-- KEYS[1..3]  hash, counter, log: see config.lua and log.lua
-- ARGV[1]  integer  rate, permits per window
-- ARGV[2]  integer  window, ms
-- ARGV[3]  0 or 1   mode: overall, per client
-- ARGV[4]  integer  keep-alive, ms; 0 for none
-- ARGV[5]  when: `absent`, `present` or `always`
-- ARGV[6]  the state: `reset` or `keep`
--
-- Returns 1 when it was written, else 0.
local config = { rate = tonumber(ARGV[1]), per = tonumber(ARGV[2]), keep_alive = tonumber(ARGV[4]) }
local fields = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type')
local whole = integer(fields[1]) and integer(fields[2]) and fields[3]
if (ARGV[5] == 'absent' and whole) or (ARGV[5] == 'present' and not whole) then return 0 end

local keep = ARGV[6] == 'keep' and fields[3] == ARGV[3] and ARGV[3] == '0'
if not keep then forget_state() end
redis.call('HSET', KEYS[1], 'rate', ARGV[1], 'interval', ARGV[2], 'type', ARGV[3],
  'keepAliveTime', ARGV[4])
if config.keep_alive > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
if keep then
  drop(over(config.per, now) or 0)
  rebuild_counter(config)
end
return 1
