#!lua flags=allow-oom
-- give_back: hand a lease back unworked, so that another may take it at once.
--
--   EVALSHA <give_back> 2 due tasks   task token
--
-- KEYS (one slot; records as append.lua describes them)
--   1 due     sorted set: task -> server ms
--   2 tasks   hash: task -> state|token|op|inbox|claims
--
-- ARGV
--   task, token   the lease
--
-- Reply: 1, or 0 if the token did not hold the task any more
-- The claims start again at 0: a lease that was given back was not lost.

local due, tasks = KEYS[1], KEYS[2]
local task, token = ARGV[1], ARGV[2]
local READY = 'q'

local state, holder, op, inbox =
  string.match(redis.call('HGET', tasks, task) or '', '^(%a)|([^|]*)|([^|]*)|(%d+)|%d+$')
if not state or token == '' or holder ~= token then
  return 0
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
redis.call('HSET', tasks, task, table.concat({ READY, '', op, inbox, 0 }, '|'))
redis.call('ZADD', due, string.format('%.0f', now), task)
return 1
