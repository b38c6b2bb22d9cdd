#!lua flags=allow-oom
-- slots: take a slot of a lane or a place in it, give one back, leave, or look.
--
--   EVALSHA <slots> 5 held waiting called meter lanes   action lane concurrent burst spacing_ms ...
--
-- KEYS (one slot)
--   1 held      sorted set: token -> server ms until which it holds a slot
--   2 waiting   sorted set: waiter -> server ms since when it waits; the order of service
--   3 called    sorted set: waiter that knows when to come -> server ms at which it loses its place
--   4 meter     hash: next (server ms at which the rate would be used up evenly), paused (server ms
--               until which nobody may take a slot)
--   5 lanes     sorted set: lane -> server ms at which somebody last took or looked for a slot
--
-- ARGV
--   action       take | give | leave | look
--   lane         its name
--   concurrent   slots that may be held at once; 0: any number
--   burst        slots that may be taken at once, by the rate
--   spacing_ms   milliseconds between slots after a burst; 0: no limit on the rate
--   take:  waiter token hold_ms since_ms (0: now)      give: token pause_ms      leave: waiter
--
-- Reply: taken (1 or 0), milliseconds to wait, waiters ahead, then of each waiter called its name
--   and the milliseconds until its turn; for look: held, waiting, milliseconds of pause left
-- The rate is a token bucket, kept as the one moment `next` instead of a level and a time.
-- It adds little memory and frees what others wait for, so it may run when memory is full.

local held, waiting, called, meter, lanes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local action, lane = ARGV[1], ARGV[2]
local concurrent, burst, spacing_ms = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- As in events/slots.py, which says why.
local CALL_MS, FAR_MS, FAR_STEP_MS, HEADS, SOONEST_MS = 5000, 30000, 20, 3, 50
local LONGEST_PAUSE_MS = 300000
local DAY_MS = 86400000

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function whole(number)
  return string.format('%.0f', number)
end

redis.call('ZREMRANGEBYSCORE', held, '-inf', now)
for _, late in ipairs(redis.call('ZRANGEBYSCORE', called, '-inf', now)) do
  redis.call('ZREM', waiting, late)
  redis.call('ZREM', called, late)
end

local rate = redis.call('HMGET', meter, 'next', 'paused')
-- The most that takes and pauses up to now can have made of them: what is beyond was written before
-- the clock was set back, and would stop the lane for as long as that was.
local next_at = math.min(tonumber(rate[1] or '0'), now + burst * spacing_ms)
local paused_until = math.min(tonumber(rate[2] or '0'), now + LONGEST_PAUSE_MS)

-- Milliseconds until the count-th of those who come from now on may take a slot, by rate and pause.
local function delay_of(count)
  local first = math.max(next_at, now, paused_until)
  local by_rate = first + (count - burst) * spacing_ms - now
  return math.max(0, math.ceil(by_rate), paused_until - now)
end

local function free_slots()
  return concurrent == 0 and math.huge or concurrent - redis.call('ZCARD', held)
end

local function knows_when_to_come(waiter, delay)
  redis.call('ZADD', called, whole(now + delay + CALL_MS), waiter)
end

-- Without a limit on slots held, waiters know their moment from the rate: nobody is called.
local function call_next(reply)
  local free = free_slots()
  if concurrent > 0 and free > 0 then
    for rank, waiter in ipairs(redis.call('ZRANGE', waiting, 0, free - 1)) do
      if not redis.call('ZSCORE', called, waiter) then
        local delay = delay_of(rank)
        knows_when_to_come(waiter, delay)
        reply[#reply + 1] = waiter
        reply[#reply + 1] = delay
      end
    end
  end
  return reply
end

local function first_end()
  local first = now + FAR_MS
  for _, key in ipairs({ held, called }) do
    local entry = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    first = math.min(first, tonumber(entry[2] or first))
  end
  return first - now
end

local function take(waiter, token, hold_ms, since)
  if redis.call('ZSCORE', held, token) then
    redis.call('ZADD', held, whole(now + hold_ms), token)
    return call_next({ 1, 0, 0 })
  end
  local free = free_slots()
  local ahead = redis.call('ZRANK', waiting, waiter)
  if not ahead then
    redis.call('ZADD', waiting, whole(since > 0 and since or now), waiter)
    ahead = redis.call('ZRANK', waiting, waiter)
  end
  local delay = delay_of(ahead + 1)
  if ahead < free and delay == 0 then
    redis.call('ZREM', waiting, waiter)
    redis.call('ZREM', called, waiter)
    redis.call('ZADD', held, whole(now + hold_ms), token)
    next_at = math.max(next_at, now) + spacing_ms
    redis.call('HSET', meter, 'next', string.format('%.3f', next_at))
    return call_next({ 1, 0, 0 })
  end
  if ahead < free then
    knows_when_to_come(waiter, delay)
    return call_next({ 0, delay, ahead })
  end
  redis.call('ZREM', called, waiter)
  local wait = FAR_MS + ahead * FAR_STEP_MS
  if ahead < free + HEADS then
    wait = math.max(SOONEST_MS, first_end())
  end
  return call_next({ 0, wait, ahead })
end

local function give(token, pause_ms)
  redis.call('ZREM', held, token)
  if pause_ms > 0 then
    paused_until = math.max(paused_until, now + math.min(pause_ms, LONGEST_PAUSE_MS))
    redis.call('HSET', meter, 'paused', whole(paused_until))
  end
  return call_next({ 0, 0, 0 })
end

local function leave(waiter)
  redis.call('ZREM', waiting, waiter)
  redis.call('ZREM', called, waiter)
  return call_next({ 0, 0, 0 })
end

local function look()
  return {
    redis.call('ZCARD', held), redis.call('ZCARD', waiting), math.max(0, paused_until - now),
  }
end

if action == 'look' then
  return look()
elseif action == 'give' then
  return give(ARGV[6], tonumber(ARGV[7]))
elseif action == 'leave' then
  return leave(ARGV[6])
elseif action ~= 'take' then
  return redis.error_reply('BADCALL no action ' .. action)
end

redis.call('ZREMRANGEBYSCORE', lanes, '-inf', now - DAY_MS)
redis.call('ZADD', lanes, whole(now), lane)
local reply = take(ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]))
for _, key in ipairs({ held, waiting, called, meter }) do
  redis.call('PEXPIRE', key, DAY_MS)
end
return reply
