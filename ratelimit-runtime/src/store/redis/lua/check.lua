-- Tries every command the other scripts use, on keys of its own.
--
-- KEYS[1..3]  three names in one slot, gone when the script ends
-- KEYS[4..]   names in another slot, which only a node of a cluster rejects
--
-- A command that the user may not run fails in the middle of a script, after earlier writes. So
-- this is checked at startup.
--
-- Returns one text for each command that failed.
local complaints = {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    complaints[#complaints + 1] = name .. ': ' .. reply.err
  end
end

try('TIME')
try('HMGET', KEYS[1], 'rate')
try('HGET', KEYS[1], 'rate')
try('HSET', KEYS[1], 'rate', '1')
try('HDEL', KEYS[1], 'algorithm')
try('EXISTS', KEYS[2], KEYS[3])
try('GET', KEYS[2])
try('SET', KEYS[2], '1', 'PX', '1000')
try('ZADD', KEYS[3], '1', 'member')
try('ZCARD', KEYS[3])
try('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
try('ZRANGEBYSCORE', KEYS[3], '-inf', '0')
try('ZREM', KEYS[3], 'other')
try('ZREMRANGEBYRANK', KEYS[3], '5', '6')
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], '1000')
try('PEXPIRE', KEYS[3], '1000')
try('PERSIST', KEYS[1])
try('UNLINK', KEYS[2], KEYS[3])
try('DEL', KEYS[1], KEYS[2], KEYS[3])
return complaints
