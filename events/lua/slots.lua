#!lua flags=allow-oom
-- slots: take a slot of a lane or a place in it, give one back, leave, or look.
--
--   EVALSHA <slots> 2 lanes tenants   action lane concurrent burst spacing_ms tenant ...
--
-- KEYS (one slot; it also reads and writes, beside `lanes` and named like it, of each lane)
--   1 lanes     sorted set: lane -> server ms at which somebody last took or looked for a slot
--   2 tenants   hash: tenant -> its limits, a word each: runs, requests, requests a minute, tokens a
--               minute, runs queued; - for the default's, 0 for none. * is the default, + all together
--   held:L      sorted set: token -> server ms until which it holds a slot
--   waiting:L   sorted set: waiter of no tenant -> server ms since when it waits
--   turns:T:L   sorted set: the same of tenant T
--   flows:L     sorted set: tenant with waiters (empty: none) -> its turn
--   called:L    sorted set: waiter that knows when to come -> server ms at which it loses its place;
--               one of a tenant is written as the tenant, a line feed and the waiter
--   meter:L     hash: next (server ms at which the rate would be used up evenly), paused (server ms
--               until which nobody may take a slot), turn (the last one given), and the limits
--               concurrent, burst, spacing of who took or looked last
--   and of what a tenant holds, G = tenant/T/runs or tenant/T/requests, also in `lanes`
--   held:G      as of a lane
--   lanes:G     set: lanes where T has waiters
--   meter:G     hash: next, tokens (server ms at which they would be used up evenly), wanted (of the
--               request that waited for some last)
--
-- ARGV
--   action       take | give | leave | look | keep | unrenewed | call
--   lane         its name
--   concurrent   slots that may be held at once; 0: any number
--   burst        slots that may be taken at once, by the rate
--   spacing_ms   milliseconds between slots after a burst; 0: no limit on the rate
--   tenant       for whom; empty: for none
--   take:  waiter token hold_ms since_ms (0: now) tokens bounded (1: refused, if more wait than may)
--   give:  token pause_ms tokens      leave: waiter      keep: token hold_ms
--   unrenewed: hold_ms (the lane is `runs`)              call: nothing, by the limits of the meter
--
-- Reply: taken (1, 0, or 2: refused), milliseconds to wait, waiters ahead, whether it is the tenant's
--   limit (1 or 0), then of each waiter called its name, the milliseconds until its turn, its lane
--   (empty: this one) and its tenant; for look: held, waiting, milliseconds of pause left; for keep:
--   1; for unrenewed: tokens
-- The rates are token buckets, kept as the one moment `next` instead of a level and a time.
-- Those who wait take turns: each tenant's first before any one's second. A tenant that can't go on,
-- by its limits, is passed over.
-- It adds little memory and frees what others wait for, so it may run when memory is full.

local lanes_key, tenants_key = KEYS[1], KEYS[2]
local at = string.sub(lanes_key, 1, -6)
local action, own_name, own_tenant = ARGV[1], ARGV[2], ARGV[6]
local RUNS = 'runs'

-- As in events/slots.py, which says why.
local CALL_MS, FAR_MS, FAR_STEP_MS, HEADS, SOONEST_MS = 5000, 30000, 20, 3, 50
local LONGEST_PAUSE_MS, WINDOW_MS = 300000, 60000
-- As in events/memory_slots.py.
local LONGEST_DEBT_MS, UNRENEWED = 600000, 100
local BUILT_IN = { 100, 0, 0, 0, 0 } -- as in events/tenants.py
local DAY_MS = 86400000

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function whole(number)
  return string.format('%.0f', number)
end

-- --- Tenants -----------------------------------------------------------------------------------

local function words_of(text)
  local words = {}
  for word in string.gmatch(text or '', '%S+') do
    words[#words + 1] = word
  end
  return words
end

-- Five numbers; 0: no limit.
local function limits_of(tenant)
  local set = redis.call('HMGET', tenants_key, tenant, '*')
  local own, common, limits = words_of(set[1]), words_of(set[2]), {}
  for nth, built_in in ipairs(BUILT_IN) do
    local word = own[nth] or '-'
    if word == '-' then
      word = common[nth] or '-'
    end
    limits[nth] = word == '-' and built_in or tonumber(word)
  end
  return limits
end

local function rate_of(per_minute)
  if per_minute == 0 then
    return 1, 0
  end
  local burst = math.max(1, math.floor(per_minute / 10))
  return burst, WINDOW_MS / (per_minute - burst + 1)
end

local function gate_of(tenant, lane)
  if tenant == '' then
    return nil
  end
  local runs = lane.name == RUNS
  local name = 'tenant/' .. tenant .. '/' .. (runs and RUNS or 'requests')
  local limits = limits_of(tenant)
  local gate = {
    name = name, held = at .. 'held:' .. name, meter = at .. 'meter:' .. name,
    lanes = at .. 'lanes:' .. name, queued = limits[5],
  }
  if not runs then
    redis.call('ZREMRANGEBYSCORE', gate.held, '-inf', now)
  end
  local most = runs and limits[1] or limits[2]
  gate.free = most == 0 and math.huge or most - redis.call('ZCARD', gate.held)
  gate.burst, gate.spacing = rate_of(runs and 0 or limits[3])
  gate.tokens_burst, gate.tokens_spacing = rate_of(runs and 0 or limits[4])
  local meter = redis.call('HMGET', gate.meter, 'next', 'tokens', 'wanted')
  gate.next_at = math.min(tonumber(meter[1] or '0'), now + gate.burst * gate.spacing)
  gate.tokens_at = math.min(tonumber(meter[2] or '0'), now + LONGEST_DEBT_MS)
  gate.wanted = tonumber(meter[3] or '1')
  return gate
end

-- Milliseconds until the count-th of a tenant's waiters may go on, by its rates. What wants more
-- tokens than may be taken at once goes when all of those are there.
local function gate_delay(gate, count, tokens)
  local delay = 0
  if gate.spacing > 0 then
    delay = math.max(gate.next_at, now) + (count - gate.burst) * gate.spacing - now
  end
  if gate.tokens_spacing > 0 then
    local needed = (count - 1) * tokens + math.min(tokens, gate.tokens_burst) - gate.tokens_burst
    delay = math.max(delay, math.max(gate.tokens_at, now) + needed * gate.tokens_spacing - now)
  end
  return math.max(0, math.ceil(delay))
end

-- How many of a tenant may be called together: one after the other where it has a rate.
local function at_once(gate)
  return gate.spacing + gate.tokens_spacing > 0 and math.min(gate.free, 1) or gate.free
end

-- --- A lane ------------------------------------------------------------------------------------

local function queue_of(lane, tenant)
  return tenant == '' and lane.waiting or at .. 'turns:' .. tenant .. ':' .. lane.name
end

local function callee(tenant, waiter)
  return tenant == '' and waiter or tenant .. '\n' .. waiter
end

local function next_turn(lane, tenant)
  redis.call('ZADD', lane.flows, redis.call('HINCRBY', lane.meter, 'turn', 1), tenant)
end

-- After waiters of a tenant have gone.
local function count_out(lane, tenant)
  if redis.call('ZCARD', queue_of(lane, tenant)) > 0 then
    return false
  end
  redis.call('ZREM', lane.flows, tenant)
  if tenant ~= '' then
    local name = 'tenant/' .. tenant .. '/' .. (lane.name == RUNS and RUNS or 'requests')
    redis.call('SREM', at .. 'lanes:' .. name, lane.name)
  end
  return true
end

local function opened(name, concurrent, burst, spacing_ms)
  local lane = {
    name = name, held = at .. 'held:' .. name, waiting = at .. 'waiting:' .. name,
    called = at .. 'called:' .. name, meter = at .. 'meter:' .. name, flows = at .. 'flows:' .. name,
  }
  local kept = redis.call('HMGET', lane.meter, 'next', 'paused', 'concurrent', 'burst', 'spacing')
  lane.concurrent = concurrent or tonumber(kept[3] or '0')
  lane.burst = burst or tonumber(kept[4] or '1')
  lane.spacing = spacing_ms or tonumber(kept[5] or '0')
  if name == RUNS then
    local together = words_of(redis.call('HGET', tenants_key, '+') or nil)[1] or '-'
    lane.concurrent = together == '-' and 0 or tonumber(together)
  elseif not string.match(name, '^tenant/.*/runs$') then -- runs are counted out by who looks at them
    redis.call('ZREMRANGEBYSCORE', lane.held, '-inf', now)
  end
  -- A version that knew no turns gave places without one.
  if redis.call('EXISTS', lane.waiting) == 1 and not redis.call('ZSCORE', lane.flows, '') then
    next_turn(lane, '')
  end
  for _, late in ipairs(redis.call('ZRANGEBYSCORE', lane.called, '-inf', now)) do
    local tenant, waiter = string.match(late, '^([^\n]*)\n(.*)$')
    redis.call('ZREM', queue_of(lane, tenant or ''), waiter or late)
    redis.call('ZREM', lane.called, late)
    count_out(lane, tenant or '')
  end
  -- The most that takes and pauses up to now can have made of them: what is beyond was written before
  -- the clock was set back, and would stop the lane for as long as that was.
  lane.next_at = math.min(tonumber(kept[1] or '0'), now + lane.burst * lane.spacing)
  lane.paused_until = math.min(tonumber(kept[2] or '0'), now + LONGEST_PAUSE_MS)
  return lane
end

-- Milliseconds until the count-th of those who come from now on may take a slot, by rate and pause.
local function delay_of(lane, count)
  local first = math.max(lane.next_at, now, lane.paused_until)
  local by_rate = first + (count - lane.burst) * lane.spacing - now
  return math.max(0, math.ceil(by_rate), lane.paused_until - now)
end

local function free_slots(lane)
  return lane.concurrent == 0 and math.huge or lane.concurrent - redis.call('ZCARD', lane.held)
end

local function knows_when_to_come(lane, tenant, waiter, delay)
  redis.call('ZADD', lane.called, whole(now + delay + CALL_MS), callee(tenant, waiter))
end

local function tell(lane, tenant, waiter, delay, reply)
  if redis.call('ZSCORE', lane.called, callee(tenant, waiter)) then
    return
  end
  knows_when_to_come(lane, tenant, waiter, delay)
  reply[#reply + 1] = waiter
  reply[#reply + 1] = delay
  reply[#reply + 1] = lane.name == own_name and '' or lane.name
  reply[#reply + 1] = tenant
end

-- The tenants whose waiters may be called, in the order of their turns, each with how many may.
-- Without a limit on slots held, waiters know their moment from the rates: nobody is called.
local function callable(lane, free, reply)
  local lines = {}
  for _, tenant in ipairs(redis.call('ZRANGE', lane.flows, 0, -1)) do
    local gate, most = gate_of(tenant, lane), free
    if gate then
      local delay = gate_delay(gate, 1, gate.wanted)
      most = delay > 0 and 0 or math.min(free, at_once(gate))
      if delay > 0 and gate.free > 0 then
        local first = redis.call('ZRANGE', queue_of(lane, tenant), 0, 0)[1]
        if first then
          tell(lane, tenant, first, delay, reply)
        end
      end
    end
    if most > 0 and most < math.huge then
      lines[#lines + 1] = { tenant = tenant, queue = queue_of(lane, tenant), most = most }
    end
  end
  return lines
end

local function call_next(lane, reply)
  local free = free_slots(lane)
  if free <= 0 then
    return reply
  end
  local lines, rank, nth, more = callable(lane, free, reply), 0, 0, true
  while more and rank < free do
    more = false
    for _, line in ipairs(lines) do
      local waiter = nth < line.most and rank < free
        and redis.call('ZRANGE', line.queue, nth, nth)[1]
      if waiter then
        more = true
        rank = rank + 1
        tell(lane, line.tenant, waiter, delay_of(lane, rank), reply)
      end
    end
    nth = nth + 1
  end
  return reply
end

-- The same in the other lanes where a tenant waits.
local function call_elsewhere(lane, gate, reply)
  for _, name in ipairs(gate and redis.call('SMEMBERS', gate.lanes) or {}) do
    if name ~= lane.name then
      call_next(opened(name), reply)
    end
  end
  return reply
end

local function first_end(lane, held)
  local first = now + FAR_MS
  for _, key in ipairs({ held, lane.called }) do
    local entry = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    first = math.min(first, tonumber(entry[2] or first))
  end
  return first - now
end

-- How many of a tenant's waiters its limits would let go now.
local function ready(lane, tenant)
  local waiting, gate = redis.call('ZCARD', queue_of(lane, tenant)), gate_of(tenant, lane)
  if not gate then
    return waiting
  end
  return gate_delay(gate, 1, gate.wanted) > 0 and 0 or math.min(waiting, at_once(gate))
end

-- Waiters before one that has so many of its own tenant ahead, each turn counted.
local function place_of(lane, tenant, ahead)
  local place, before = ahead, 1
  for _, other in ipairs(redis.call('ZRANGE', lane.flows, 0, -1)) do
    if other == tenant then
      before = 0
    else
      place = place + math.max(0, math.min(ready(lane, other), ahead + before))
    end
  end
  return place
end

-- --- What is asked for ---------------------------------------------------------------------------

local function hold(lane, gate, token, hold_ms)
  redis.call('ZADD', lane.held, whole(now + hold_ms), token)
  if gate then
    redis.call('ZADD', gate.held, whole(now + hold_ms), token)
    redis.call('ZADD', lanes_key, whole(now), gate.name)
  end
end

-- The wait of one who has to be called; the first ones look by themselves.
local function far(lane, held, tenant, waiter, ahead, free, by_tenant)
  redis.call('ZREM', lane.called, callee(tenant, waiter))
  local wait = FAR_MS + ahead * FAR_STEP_MS
  if ahead < free + HEADS then
    wait = math.max(SOONEST_MS, first_end(lane, held))
  end
  return { 0, wait, ahead, by_tenant }
end

-- Why a waiter may not take a slot now, as a reply; nil: it may.
local function obstacle(lane, gate, tenant, waiter, tokens)
  local ahead = redis.call('ZRANK', queue_of(lane, tenant), waiter)
  if gate then
    if ahead >= gate.free then
      return far(lane, gate.held, tenant, waiter, ahead, gate.free, 1)
    end
    local delay = gate_delay(gate, ahead + 1, tokens)
    if delay > 0 then
      redis.call('HSET', gate.meter, 'wanted', whole(tokens))
      knows_when_to_come(lane, tenant, waiter, delay)
      return { 0, delay, ahead, 1 }
    end
  end
  local free, place = free_slots(lane), place_of(lane, tenant, ahead)
  if place >= free then
    return far(lane, lane.held, tenant, waiter, place, free, 0)
  end
  local delay = delay_of(lane, place + 1)
  if delay > 0 then
    knows_when_to_come(lane, tenant, waiter, delay)
    return { 0, delay, place, 0 }
  end
  return nil
end

local function enter(lane, gate, tenant, waiter, since)
  local queue = queue_of(lane, tenant)
  if not redis.call('ZSCORE', queue, waiter) then
    redis.call('ZADD', queue, whole(since > 0 and since or now), waiter)
  end
  if not redis.call('ZSCORE', lane.flows, tenant) then
    next_turn(lane, tenant)
  end
  if gate then
    redis.call('SADD', gate.lanes, lane.name)
    redis.call('ZADD', lanes_key, whole(now), gate.name)
  end
end

local function go(lane, tenant, waiter)
  redis.call('ZREM', queue_of(lane, tenant), waiter)
  redis.call('ZREM', lane.called, callee(tenant, waiter))
  return not count_out(lane, tenant)
end

local function take(lane, tenant, waiter, token, hold_ms, since, tokens, bounded)
  local gate = gate_of(tenant, lane)
  if redis.call('ZSCORE', lane.held, token) then
    hold(lane, gate, token, hold_ms)
    return call_next(lane, { 1, 0, 0, 0 })
  end
  enter(lane, gate, tenant, waiter, since)
  local reply = obstacle(lane, gate, tenant, waiter, math.max(tokens, 1))
  if reply then
    local waiting = redis.call('ZCARD', queue_of(lane, tenant))
    if bounded and gate and gate.queued > 0 and waiting > gate.queued then
      go(lane, tenant, waiter)
      return { 2, 0, waiting - 1, 1 }
    end
    return call_next(lane, reply)
  end
  hold(lane, gate, token, hold_ms)
  if go(lane, tenant, waiter) then
    next_turn(lane, tenant)
  end
  lane.next_at = math.max(lane.next_at, now) + lane.spacing
  redis.call('HSET', lane.meter, 'next', string.format('%.3f', lane.next_at))
  if gate and gate.spacing + gate.tokens_spacing > 0 then
    local next_at = math.max(gate.next_at, now) + gate.spacing
    local tokens_at = math.max(gate.tokens_at, now) + tokens * gate.tokens_spacing
    redis.call('HSET', gate.meter,
      'next', string.format('%.3f', next_at), 'tokens', string.format('%.3f', tokens_at))
  end
  return call_next(lane, { 1, 0, 0, 0 })
end

local function give(lane, tenant, token, pause_ms, tokens)
  redis.call('ZREM', lane.held, token)
  if pause_ms > 0 then
    lane.paused_until = math.max(lane.paused_until, now + math.min(pause_ms, LONGEST_PAUSE_MS))
    redis.call('HSET', lane.meter, 'paused', whole(lane.paused_until))
  end
  local gate = gate_of(tenant, lane)
  if gate then
    redis.call('ZREM', gate.held, token)
    if tokens ~= 0 and gate.tokens_spacing > 0 then
      local tokens_at = gate.tokens_at + tokens * gate.tokens_spacing
      redis.call('HSET', gate.meter, 'tokens', string.format('%.3f', tokens_at))
    end
  end
  return call_elsewhere(lane, gate, call_next(lane, { 0, 0, 0, 0 }))
end

local function waiting_in(lane)
  local waiting = 0
  for _, tenant in ipairs(redis.call('ZRANGE', lane.flows, 0, -1)) do
    waiting = waiting + redis.call('ZCARD', queue_of(lane, tenant))
  end
  return waiting
end

local function look(lane)
  local tenant = string.match(lane.name, '^tenant/([^/]*)/')
  if not tenant then
    local paused = math.max(0, lane.paused_until - now)
    return { redis.call('ZCARD', lane.held), waiting_in(lane), paused }
  end
  local waiting = 0
  for _, name in ipairs(redis.call('SMEMBERS', at .. 'lanes:' .. lane.name)) do
    waiting = waiting + redis.call('ZCARD', at .. 'turns:' .. tenant .. ':' .. name)
  end
  return { redis.call('ZCARD', lane.held), waiting, 0 }
end

local function unrenewed(lane, hold_ms)
  local late = redis.call('ZRANGEBYSCORE', lane.held, '-inf', now, 'LIMIT', 0, UNRENEWED)
  for _, token in ipairs(late) do
    local tenant = string.match(token, '^([^/]*)/') or ''
    hold(lane, gate_of(tenant, lane), token, hold_ms)
  end
  return late
end

local function stay(lane, tenant)
  redis.call('ZREMRANGEBYSCORE', lanes_key, '-inf', now - DAY_MS)
  redis.call('ZADD', lanes_key, whole(now), lane.name)
  local limits = { 'concurrent', lane.concurrent, 'burst', lane.burst, 'spacing', lane.spacing }
  redis.call('HSET', lane.meter, unpack(limits))
  local gate = gate_of(tenant, lane)
  local keys = { lane.held, lane.waiting, lane.called, lane.meter, lane.flows }
  if gate then
    for _, key in ipairs({ gate.held, gate.meter, gate.lanes, queue_of(lane, tenant) }) do
      keys[#keys + 1] = key
    end
  end
  for _, key in ipairs(keys) do
    redis.call('PEXPIRE', key, DAY_MS)
  end
end

local lane = action == 'call' and opened(own_name)
  or opened(own_name, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))

if action == 'look' then
  return look(lane)
elseif action == 'call' then
  return call_next(lane, { 0, 0, 0, 0 })
elseif action == 'give' then
  return give(lane, own_tenant, ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]))
elseif action == 'leave' then
  go(lane, own_tenant, ARGV[7])
  return call_next(lane, { 0, 0, 0, 0 })
elseif action == 'keep' then
  hold(lane, gate_of(own_tenant, lane), ARGV[7], tonumber(ARGV[8]))
  stay(lane, own_tenant)
  return 1
elseif action == 'unrenewed' then
  return unrenewed(lane, tonumber(ARGV[7]))
elseif action ~= 'take' then
  return redis.error_reply('BADCALL no action ' .. action)
end

local reply = take(lane, own_tenant, ARGV[7], ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10]),
  tonumber(ARGV[11]), ARGV[12] == '1')
stay(lane, own_tenant)
return reply
