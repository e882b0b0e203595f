-- One change of one request, all or nothing: compare-and-set, idempotency, numbering, lists and outbox.
-- KEYS: 1 request, 2 answer, 3 numbers, 4 outbox order, 5 outbox bodies, 6… the lists that change
-- ARGV: 1 expected revision, 2 request, 3 answer, 4 life of the answer (ms), 5 the rest (JSON)
-- Gives {'kept', answer} (this one, or the one this key had before) or {'conflict', what}.
local had = redis.call('GET', KEYS[2])
if had then return {'kept', had} end
if (redis.call('HGET', KEYS[1], 'revision') or '0') ~= ARGV[1] then return {'conflict', 'revision'} end
local change = cjson.decode(ARGV[5])
local number = change.number
if number then
  if (redis.call('HGET', KEYS[3], number.prefix) or '0') ~= number.last then return {'conflict', 'number'} end
  redis.call('HSET', KEYS[3], number.prefix, number.next)
end
redis.call('HSET', KEYS[1], 'revision', change.revision, 'request', ARGV[2])
for _, listed in ipairs(change.lists) do
  if listed.score then
    redis.call('ZADD', KEYS[listed.key], listed.score, listed.member)
  else
    redis.call('ZREM', KEYS[listed.key], listed.member)
  end
end
for _, notice in ipairs(change.notices) do
  redis.call('ZADD', KEYS[4], redis.call('HINCRBY', KEYS[3], 'outbox', 1), notice.id)
  redis.call('HSET', KEYS[5], notice.id, notice.body)
end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
return {'kept', ARGV[3]}
