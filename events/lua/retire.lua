#!lua flags=allow-oom
-- retire: take an ended run off the server, once it is kept elsewhere. Its row in the index stays.
--
--   EVALSHA <retire> <number of keys> <keys>   run version last_event number_of_rows [task]*
--
-- KEYS (all in the slot of the run's partition; records and rows as append.lua describes them)
--   1 runs         hash: run -> version|phase|...
--   2 run stream   the run's events
--   3 tasks        hash: task -> state|token|op|inbox|claims
--   4 due          sorted set: task -> server ms
--   5 meta         hash: archived -> how many runs were retired
--   6 ...          hashes, as many as ARGV says: run -> a projection's row
--   ...            what goes as a whole: its snapshot, its payloads
--
-- ARGV
--   run, version      which run, and how many events of it are kept
--   last_event        its last event's bytes: another one there means that the server was set back
--   number_of_rows    how many of the KEYS from 6 on are rows
--   task              the tasks that it may have left behind
--
-- Reply: OK (also if it was retired before), or, with nothing changed:
--   GONE   no such run              OPEN   it has not ended
--   MOVED  there are other events   HELD   a task of it is leased: a receipt may still come
-- It frees memory, so it may run when memory is full.

local runs, run_stream, tasks, due, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local run, version, last_event, row_count = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local FIRST_ROWS, FIRST_TASK, LEASED = 6, 5, 'l'

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function is_held(task)
  local state = string.sub(redis.call('HGET', tasks, task) or '', 1, 1)
  return state == LEASED and tonumber(redis.call('ZSCORE', due, task) or '0') > now
end

local row = redis.call('HGET', runs, run)
if not row then
  return 'GONE'
end
local now_at, phase, rest = string.match(row, '^(%d+)|(%a+)|(.*)$')
if phase == 'archived' then
  return 'OK'
elseif phase ~= 'closed' then
  return 'OPEN'
end
local last = redis.call('XREVRANGE', run_stream, '+', '-', 'COUNT', 1)[1]
if now_at ~= version or not last or last[1] ~= version .. '-0' or last[2][4] ~= last_event then
  return 'MOVED'
end
for at = FIRST_TASK, #ARGV do
  if is_held(ARGV[at]) then
    return 'HELD'
  end
end

redis.call('HSET', runs, run, now_at .. '|archived|' .. rest)
redis.call('HINCRBY', meta, 'archived', 1)
redis.call('UNLINK', run_stream)
for at = FIRST_TASK, #ARGV do
  redis.call('HDEL', tasks, ARGV[at])
  redis.call('ZREM', due, ARGV[at])
end
for at = FIRST_ROWS, FIRST_ROWS + row_count - 1 do
  redis.call('HDEL', KEYS[at], run)
end
for at = FIRST_ROWS + row_count, #KEYS do
  redis.call('UNLINK', KEYS[at])
end
return 'OK'
