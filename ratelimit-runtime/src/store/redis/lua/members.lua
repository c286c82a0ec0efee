-- Sends the heartbeat of a process, including the last one, and returns the processes that were alive
-- before it: without this one if it is new, or if the server lost its data.
--
-- KEYS[1]  zset     processes by the time of their last heartbeat, ms
-- KEYS[2]  hash     the data of this process; expires with it
-- ARGV[1]  id of the process: 16 hexadecimal digits, see `MemberId`
-- ARGV[2]  its program
-- ARGV[3]  its version
-- ARGV[4]  its host
-- ARGV[5]  its process id
-- ARGV[6]  integer  how long a process lives without a heartbeat, ms; 0: it leaves
-- ARGV[7]  integer  the time to use in a test, ms
-- ARGV[8]  integer  when it started, us by this server's clock
-- ARGV[9]  the counts of its limiters, one per line, see `Counts`
--
-- Returns a list of ids.
local lives = tonumber(ARGV[6])
local process = string.sub(ARGV[1], 9)
local alive = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now - lives, '+inf')
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  -- The process had other limits until its limits file changed.
  if string.sub(id, 9) == process then redis.call('ZREM', KEYS[1], id) end
end
if lives == 0 then
  redis.call('DEL', KEYS[2])
  return {}
end
redis.call('HSET', KEYS[2], 'id', ARGV[1], 'program', ARGV[2], 'version', ARGV[3],
  'host', ARGV[4], 'pid', ARGV[5], 'since', ARGV[8], 'limiters', ARGV[9])
redis.call('PEXPIRE', KEYS[2], lives)
-- The clock was set back: a process that is gone would count as alive until the clock caught up.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')) do
  redis.call('ZADD', KEYS[1], now, id)
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], lives)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - lives)) do
  redis.call('ZREM', KEYS[1], gone)
end
return alive
