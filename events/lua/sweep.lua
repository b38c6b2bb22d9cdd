#!lua flags=allow-oom
-- sweep: make ready what is due. It executes nothing.
--
--   EVALSHA <sweep> 2 due tasks   limit resend_ms
--
-- KEYS (one slot; records as append.lua describes them)
--   1 due     sorted set: task -> server ms
--   2 tasks   hash: task -> state|token|op|inbox|claims
--
-- ARGV
--   limit       how many entries at most, the oldest first
--   resend_ms   when to answer them again, unless someone claims them first
--
-- Reply: milliseconds until the next entry is due (-1: there is none), server ms, then the tasks
-- Their tokens stay: a holder whose lease ran out may still append until another claims. Only
-- pushing the score would leave the task leased, and every claim would find it busy.

local due, tasks = KEYS[1], KEYS[2]
local limit, resend_ms = ARGV[1], tonumber(ARGV[2])
local READY = 'q'

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local again = string.format('%.0f', now + resend_ms)

local reply = { -1, now }
for _, task in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, limit)) do
  local record = redis.call('HGET', tasks, task)
  if not record then
    redis.call('ZREM', due, task)
  else
    if string.sub(record, 1, 1) ~= READY then
      redis.call('HSET', tasks, task, READY .. string.sub(record, 2))
    end
    redis.call('ZADD', due, again, task)
    reply[#reply + 1] = task
  end
end

local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
if first[2] then
  reply[1] = math.max(0, tonumber(first[2]) - now)
end
return reply
