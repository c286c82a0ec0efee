-- Reconciles only the configuration, for limiters that are counted in the process.
--
-- KEYS[1..3], ARGV[1..7]  as for limiter.lua; ARGV[1] is 0
--
-- Returns what limiter.lua returns, with nothing counted.
local COUNTED, UNKNOWN = 1, 5

local config, event = reconcile(own_config(ARGV), now, stored_config())
if not config then return reply_of(UNKNOWN, 0, 0, now, NO_CONFIG, event, 0) end
if config.keep_alive > 0 then
  redis.call('PEXPIRE', KEYS[1], config.keep_alive)
end
local reply = reply_of(COUNTED, config.rate, 0, now, config, event, 0)
reply[#reply + 1] = 0
return reply
