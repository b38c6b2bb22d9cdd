#!lua
-- append: add events to a run, all or none, and move tasks. The one way to write to the log.
--
--   EVALSHA <append> <number of keys> <keys>
--     run op mode subject token previous_op inbox flags moves sealed discarded
--     as_of take_task take_token take_ms
--     [task action delay_ms]* [payload]* [ttl_ms candidate]* [event]*
--
-- KEYS (all in the slot of the run's partition)
--   1 run stream   the run's events, ids <version>-0, fields t (server ms) and d (the event)
--   2 feed         stream of references: r run, v last version, n count
--   3 due          sorted set: task -> server ms at which someone has to look at it
--   4 tasks        hash: task -> task record
--   5 runs         hash: run -> run row
--   6 ...          one string for each large payload, then for each candidate that is sealed (with
--                  a time to live), then for each that is discarded; flagged k: last, the hash of
--                  data keys: run -> its data key's id|...
--
-- ARGV
--   run            the run's id
--   op             id of this operation, minted once; a repeated call is known by it
--   mode           new | task | version | fact: as whom the writer writes
--   subject        new: digest of the request; task: the writer's task;
--                  version: the version the person saw; fact: the key the fact is about
--   token          task: the lease's token
--   previous_op    task: the task's last operation as the writer knows it
--   inbox          task: the count of wake-ups that the writer has read
--   flags          letters: i intent, r receipt, x the run is cancelling, c the run is closed,
--                  k encrypted with a data key, s a schedule's stream, which the feed does not tell
--                  of, b begin the stream anew: what stood before these events is dropped
--   moves          how many triples follow: task, action, delay in milliseconds
--                    ready  create it, due after the delay (one that exists is woken)
--                    wake   count into its inbox; one that waits or is timed becomes ready
--                    keep   (own task) hold the lease for the delay from now
--                    timer, wait, end   (own task) release it
--   sealed, discarded   how many of the KEYS are candidates to keep for a while, and to drop
--   as_of          task: the version that the run has to be at, or empty: what its own task and the
--                  taken one have to decide is decided here as well
--   take_task, take_token, take_ms   task: a ready or woken task whose lease the writer takes
--                  along, under what token and for how long; or empty
--   payload        contents of KEYS 6 ..., in their order
--   ttl_ms candidate    of each that is sealed, in their order
--   event          encoded events, at most 1,000 (new: 10,000); none where a task is only released
--   data_key_id data_key   flagged k: last, the id and the record of the data key they are under
--
-- Task record: state|token|op|inbox|claims
--   state   q ready, t timer, l leased, w waiting (no due entry)
--   token   the holder's; stays after a lease ran out until another claims; empty once released
--   op      the task's last operation; inbox: wake-ups so far; claims: claims since a release
--
-- Run row: version|phase|digest|person_op|closing_op, then a line "op key" for each recent fact
--   phase       open | cancelling | closed | archived
--   person_op   the last operation by version; closing_op: the one that closed the run
--
-- Reply: status, the run's version, server ms, the row's digest, and
--   after OK or DUP: how many leases in a row were lost on the task that was taken (-1: none was),
--   and its inbox; else the inbox of the writer's task
--   OK, or DUP (this very operation is in the log), or, with nothing written:
--   EXISTS  a row is there, perhaps of another request: the digest tells
--   GONE    no such run              CLOSED    it has ended, or cancels and is not the writer's
--   FENCED  another holds the task   STALE     the task's last operation is another
--   DIRTY   the inbox moved on, or not as of that version
--   CONFLICT  the run is at another version
--   REKEYED the run has another data key than the one that was used
--   An error reply BADCALL: the arguments make no sense; nothing was written.

local run_stream, feed, due, tasks, runs = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local run, op, mode, subject = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local token, previous_op, inbox_read, flags = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
local as_of = tonumber(ARGV[12] or '')
local take_task, take_token, take_ms = ARGV[13] or '', ARGV[14], tonumber(ARGV[15] or '')

local FIRST_MOVE = 16
local first_payload = FIRST_MOVE + 3 * tonumber(ARGV[9])
local sealed_count, discarded_count = tonumber(ARGV[10]), tonumber(ARGV[11])
local keyed = string.find(flags, 'k', 1, true) and 1 or 0
local payload_count = #KEYS - 5 - sealed_count - discarded_count - keyed
local first_sealed = first_payload + payload_count
local first_event = first_sealed + 2 * sealed_count
local last_event = #ARGV - 2 * keyed
local event_count = last_event - first_event + 1

-- 50,000 would block the server for half a second. A new run may be a copy of a long one, once.
local MAX_EVENTS = mode == 'new' and 10000 or 1000
local FACT_KEYS_KEPT = 100 -- a repeat after a hundred other facts is left to the folds
local READY, TIMER, LEASED, WAITING = 'q', 't', 'l', 'w'
local RELEASES = { timer = true, wait = true, ['end'] = true }
local OWN_ONLY = { keep = true, timer = true, wait = true, ['end'] = true }

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

-- Lua prints large numbers with an exponent, which no id and no record can bear.
local function whole(number)
  return string.format('%.0f', number)
end

local function flagged(letter)
  return string.find(flags, letter, 1, true) ~= nil
end

local function read_row()
  local text = redis.call('HGET', runs, run)
  if not text then
    return nil
  end
  local version, phase, digest, person_op, closing_op, facts =
    string.match(text, '^(%d+)|(%a+)|([^|\n]*)|([^|\n]*)|([^|\n]*)(.*)$')
  return {
    version = tonumber(version), phase = phase, digest = digest,
    person_op = person_op, closing_op = closing_op, facts = facts,
  }
end

local function write_row(row)
  local head = { whole(row.version), row.phase, row.digest, row.person_op, row.closing_op }
  redis.call('HSET', runs, run, table.concat(head, '|') .. row.facts)
end

local function fact_op(row)
  for known_op, key in string.gmatch(row.facts, '\n(%S+) ([^\n]*)') do
    if key == subject then
      return known_op
    end
  end
  return nil
end

local function remember_fact(row)
  local lines = { '\n' .. op .. ' ' .. subject }
  for known_op, key in string.gmatch(row.facts, '\n(%S+) ([^\n]*)') do
    if key ~= subject and #lines < FACT_KEYS_KEPT then
      lines[#lines + 1] = '\n' .. known_op .. ' ' .. key
    end
  end
  row.facts = table.concat(lines)
end

local loaded = {} -- task -> its record, or false where there is none
local changed = {} -- the tasks whose records are to be written

local function record_of(task)
  if loaded[task] == nil then
    local text = redis.call('HGET', tasks, task)
    local state, holder, last_op, inbox, claims =
      string.match(text or '', '^(%a)|([^|]*)|([^|]*)|(%d+)|(%d+)$')
    loaded[task] = state and {
      state = state, token = holder, op = last_op,
      inbox = tonumber(inbox), claims = tonumber(claims),
    } or false
  end
  return loaded[task]
end

local function taken()
  local record = take_task ~= '' and record_of(take_task)
  return record and record.op == op and record.token == take_token and record or nil
end

local function inbox_of_writer()
  local own = mode == 'task' and record_of(subject)
  return own and own.inbox or 0
end

local function each_move(visit)
  for at = FIRST_MOVE, first_payload - 1, 3 do
    visit(ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]))
  end
end

-- What the writer may not ask for, whatever the log holds ------------------------------------------

local MOVES = {} -- action -> what it does to a task; filled below

local function malformed()
  if event_count < 0 or event_count > MAX_EVENTS then
    return 'an append takes at most ' .. MAX_EVENTS .. ' events'
  end
  if event_count == 0 and (mode == 'new' or first_payload == FIRST_MOVE) then
    return 'a run begins with an event, and any append has events or moves'
  end
  local problem
  for at = first_sealed, first_event - 1, 2 do
    if not (tonumber(ARGV[at]) and tonumber(ARGV[at]) > 0) then
      problem = 'a candidate is sealed for some milliseconds'
    end
  end
  local takeable = take_task == ''
  each_move(function(task, action, delay)
    local own = mode == 'task' and task == subject
    takeable = takeable or (task == take_task and not own)
    if not MOVES[action] or not delay or delay ~= delay or delay < 0 then -- ~=: no number
      problem = 'no move ' .. action
    elseif OWN_ONLY[action] and not own then
      problem = action .. ' is for the writer\'s own task'
    end
  end)
  if not takeable or (take_task ~= '' and (take_token == '' or not take_ms)) then
    problem = 'a lease is taken on a task that is moved'
  end
  return problem
end

-- What the log does not allow: a status, or nil ----------------------------------------------------

local function ended(row)
  return row.phase == 'closed' or row.phase == 'archived'
end

local function releasing()
  local found = false
  each_move(function(task, action)
    found = found or (task == subject and RELEASES[action] == true)
  end)
  return found
end

-- Whether what was decided for the run's own task and for the taken one is theirs to do now.
local function still_theirs(row)
  local run_task, other = record_of(run .. '/'), take_task ~= '' and record_of(take_task)
  local waits = subject == run .. '/' or (run_task and run_task.state == WAITING)
  return row.version == as_of and waits and (not other or other.state == WAITING)
end

local CHECKS = {}

function CHECKS.new(row)
  return row and 'EXISTS' or nil
end

-- Expiry is not checked: a lease that ran out and that nobody took is still its holder's.
function CHECKS.task(row)
  local own = record_of(subject)
  -- First, or a call repeated after a lost reply would conflict with itself.
  if (own and own.op == op) or row.closing_op == op or taken() then return 'DUP' end
  if ended(row) or (row.phase == 'cancelling' and subject ~= run .. '/') then return 'CLOSED' end
  if not own or token == '' or own.token ~= token then return 'FENCED' end
  if own.op ~= previous_op then return 'STALE' end
  if own.inbox ~= inbox_read and (flagged('i') or releasing()) then return 'DIRTY' end
  if as_of and not still_theirs(row) then return 'DIRTY' end
end

function CHECKS.version(row)
  if row.person_op == op then return 'DUP' end
  if row.phase ~= 'open' then return 'CLOSED' end
  if row.version ~= tonumber(subject) then return 'CONFLICT' end
end

function CHECKS.fact(row)
  if fact_op(row) == op then return 'DUP' end
  if row.phase == 'archived' or (row.phase == 'closed' and not flagged('r')) then return 'CLOSED' end
end

-- What moves do -----------------------------------------------------------------------------------

local function schedule(task, delay)
  redis.call('ZADD', due, whole(now + delay), task)
end

local function release(record, state)
  record.state, record.token, record.claims = state, '', 0
end

local takes = false -- whether leases are given; set once the row is known

-- Whoever finds it first works it; or the writer does, who takes it along.
local function offer(task, record, delay)
  changed[task] = true
  if takes and task == take_task then
    record.state, record.token, record.op = LEASED, take_token, op
    record.claims = record.claims + 1
    return schedule(task, take_ms)
  end
  if record.state ~= READY then
    record.state = READY
    schedule(task, delay)
  end
end

function MOVES.wake(task, delay)
  local record = record_of(task)
  if not record then return end
  record.inbox = record.inbox + 1
  changed[task] = true
  if record.state ~= LEASED then offer(task, record, delay) end
end

function MOVES.ready(task, delay)
  if record_of(task) then return MOVES.wake(task, delay) end
  loaded[task] = { state = WAITING, token = '', op = '', inbox = 0, claims = 0 }
  offer(task, loaded[task], delay)
end

function MOVES.keep(task, delay)
  record_of(task).state = LEASED
  schedule(task, delay)
end

function MOVES.timer(task, delay)
  release(record_of(task), TIMER)
  schedule(task, delay)
end

function MOVES.wait(task)
  release(record_of(task), WAITING)
  redis.call('ZREM', due, task)
end

MOVES['end'] = function(task)
  loaded[task] = false
  redis.call('HDEL', tasks, task)
  redis.call('ZREM', due, task)
end

-- Checks, all of them before the first write: an error after it would leave half an append --------

local problem = CHECKS[mode] and malformed() or (not CHECKS[mode] and 'no mode ' .. mode)
if problem then
  return redis.error_reply('BADCALL ' .. problem)
end

local row = read_row()
if not row and mode ~= 'new' then
  return { 'GONE', 0, now, '', 0 }
end
local refusal = CHECKS[mode](row)

local function answer(status)
  local lease = taken()
  local lost, inbox = lease and lease.claims - 1 or -1, lease and lease.inbox or 0
  return { status, row.version, now, row.digest, lost, inbox }
end

if refusal == 'DUP' then
  return answer(refusal)
elseif refusal then
  return { refusal, row.version, now, row.digest, inbox_of_writer() }
end
-- What is encrypted with a key that is not kept could never be read.
local data_keys, data_key_id = KEYS[#KEYS], ARGV[#ARGV - 1]
local kept_key = keyed == 1 and redis.call('HGET', data_keys, run)
if kept_key and string.match(kept_key, '^[^|]*') ~= data_key_id then
  return { 'REKEYED', row and row.version or 0, now, '', 0 }
end

-- Writes ------------------------------------------------------------------------------------------

row = row or {
  version = 0, phase = 'open', digest = subject, person_op = '', closing_op = '', facts = '',
}

-- Versions come from the row: a stream that was emptied has lost its count.
if keyed == 1 and not kept_key then
  redis.call('HSET', data_keys, run, ARGV[#ARGV])
end
for at = first_event, last_event do
  row.version = row.version + 1
  redis.call('XADD', run_stream, whole(row.version) .. '-0', 't', whole(now), 'd', ARGV[at])
end
if flagged('b') then
  redis.call('XTRIM', run_stream, 'MINID', whole(row.version - event_count + 1) .. '-0')
end
if event_count > 0 and not flagged('s') then -- a release may come without
  redis.call('XADD', feed, '*', 'r', run, 'v', whole(row.version), 'n', whole(event_count))
end
for at = 1, payload_count do
  redis.call('SET', KEYS[5 + at], ARGV[first_payload + at - 1])
end
for at = 1, sealed_count do
  local ttl, candidate = ARGV[first_sealed + 2 * at - 2], ARGV[first_sealed + 2 * at - 1]
  redis.call('SET', KEYS[5 + payload_count + at], candidate, 'PX', ttl)
end
for at = 1, discarded_count do
  redis.call('DEL', KEYS[5 + payload_count + sealed_count + at])
end

if flagged('c') and not ended(row) then
  row.phase, row.closing_op = 'closed', op
elseif flagged('x') and row.phase == 'open' then
  row.phase = 'cancelling'
end
if mode == 'version' then
  row.person_op = op
elseif mode == 'fact' then
  remember_fact(row)
end
write_row(row)

if mode == 'task' then
  record_of(subject).op = op
  changed[subject] = true
  takes = take_task ~= '' and row.phase == 'open'
end
each_move(function(task, action, delay) MOVES[action](task, delay) end)
for task in pairs(changed) do
  local record = loaded[task]
  if record then
    redis.call('HSET', tasks, task, table.concat({
      record.state, record.token, record.op, whole(record.inbox), whole(record.claims),
    }, '|'))
  end
end
return answer('OK')
