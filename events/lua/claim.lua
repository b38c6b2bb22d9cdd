#!lua flags=allow-oom
-- claim: take the lease on a task that is ready, or whose lease or timer has run out.
--
--   EVALSHA <claim> 3 due tasks runs   run task token lease_ms
--
-- KEYS (one slot; records and rows as append.lua describes them)
--   1 due     sorted set: task -> server ms
--   2 tasks   hash: task -> state|token|op|inbox|claims
--   3 runs    hash: run -> version|phase|...
--
-- ARGV
--   run, task   the task and the run it belongs to
--   token       fresh and random, of at least 96 bits: a counter would be handed out twice by a
--               server that was restored from an older file
--   lease_ms    how long the lease holds from now
--
-- Reply: status, version, phase, op, inbox, lost, server ms
--   OK     leased, after `lost` leases in a row that ended without a release
--   GONE   no task, or its run has ended: what was left of it is removed
--   IDLE   it waits for a wake-up      BUSY   another holds it      EARLY   its timer runs
--   (only the status is there unless it is OK)
-- It adds no memory, so it may run when memory is full: what is under way can then end.

local due, tasks, runs = KEYS[1], KEYS[2], KEYS[3]
local run, task, token, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local READY, LEASED, WAITING = 'q', 'l', 'w'

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function remove()
  redis.call('HDEL', tasks, task)
  redis.call('ZREM', due, task)
  return { 'GONE' }
end

local text = redis.call('HGET', tasks, task)
if not text then
  return remove()
end
local state, holder, op, inbox, claims =
  string.match(text, '^(%a)|([^|]*)|([^|]*)|(%d+)|(%d+)$')
local due_at = tonumber(redis.call('ZSCORE', due, task) or '0')
local not_yet = due_at > now

local version, phase = string.match(redis.call('HGET', runs, run) or '', '^(%d+)|(%a+)|')
if not version or phase == 'closed' or phase == 'archived' then
  return remove()
end
-- A cancelling run lets a live holder be: it still sees its tool through and hands in a receipt.
if phase == 'cancelling' and task ~= run .. '/' and not (state == LEASED and not_yet) then
  return remove()
end

-- A repeated call counts no second claim, but its lease counts from now, as its caller's does.
local mine = state == LEASED and holder == token
if not mine then
  if state == WAITING then return { 'IDLE' } end
  if state == LEASED and not_yet then return { 'BUSY' } end
  if state ~= READY and not_yet then return { 'EARLY' } end
  claims = tonumber(claims) + 1
end

redis.call('HSET', tasks, task, table.concat({ LEASED, token, op, inbox, claims }, '|'))
redis.call('ZADD', due, string.format('%.0f', now + lease_ms), task)
return { 'OK', tonumber(version), phase, op, tonumber(inbox), tonumber(claims) - 1, now }
