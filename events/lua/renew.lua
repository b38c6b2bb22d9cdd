#!lua flags=allow-oom
-- renew: hold leases for longer; one call a process and partition, however many they are.
--
--   EVALSHA <renew> 3 due tasks runs   lease_ms [run task token]+
--
-- KEYS (one slot; records and rows as append.lua describes them)
--   1 due     sorted set: task -> server ms
--   2 tasks   hash: task -> state|token|op|inbox|claims
--   3 runs    hash: run -> version|phase|...
--
-- ARGV
--   lease_ms            how long the leases hold from now
--   run, task, token    one triple a lease
--
-- Reply: two entries a lease, in the order asked
--   inbox    the task's inbox, or -1: the lease is lost
--   phase    the run's phase, which carries a cancellation to whoever works the task
-- A task that was swept (ready) but still holds the token is taken back: nobody else had it.
-- It may run when memory is full, or all that is under way would be lost.

local due, tasks, runs = KEYS[1], KEYS[2], KEYS[3]
local lease_ms = tonumber(ARGV[1])
local READY, LEASED = 'q', 'l'

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function renew(run, task, token)
  local state, holder, op, inbox, claims =
    string.match(redis.call('HGET', tasks, task) or '', '^(%a)|([^|]*)|([^|]*)|(%d+)|(%d+)$')
  local phase = string.match(redis.call('HGET', runs, run) or '', '^%d+|(%a+)|')
  if not state or not phase or token == '' or holder ~= token then
    return -1, ''
  end
  if state == READY then
    redis.call('HSET', tasks, task, table.concat({ LEASED, holder, op, inbox, claims }, '|'))
  end
  redis.call('ZADD', due, string.format('%.0f', now + lease_ms), task)
  return tonumber(inbox), phase
end

local reply = {}
for at = 2, #ARGV, 3 do
  local inbox, phase = renew(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  reply[#reply + 1] = inbox
  reply[#reply + 1] = phase
end
return reply
