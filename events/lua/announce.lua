#!lua flags=allow-oom
-- announce: say that a worker lives, and read the cards of all that do.
--
--   EVALSHA <announce> 2 alive cards   worker ttl_ms card
--
-- KEYS (one slot)
--   1 alive   sorted set: worker -> server ms until which it counts as alive
--   2 cards   hash: worker -> what it says of itself
--
-- ARGV
--   worker   its id; empty: nobody is announced, the cards are only read
--   ttl_ms   for how long; 0: it ends, and is forgotten
--   card     what it says of itself
--
-- Reply: worker, card, for each that is alive
-- It may run when memory is full: workers would otherwise count as dead just then.

local alive, cards = KEYS[1], KEYS[2]
local worker, ttl_ms, card = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

if worker ~= '' then
  redis.call('ZADD', alive, string.format('%.0f', now + ttl_ms), worker)
  redis.call('HSET', cards, worker, card)
end
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', now)) do
  redis.call('ZREM', alive, dead)
  redis.call('HDEL', cards, dead)
end
return redis.call('HGETALL', cards)
