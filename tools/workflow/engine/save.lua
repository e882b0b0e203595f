-- One change of one request, all or nothing: compare-and-set, idempotency, numbering, record, lists and outbox.
-- KEYS: 1 request, 2 answer, 3 events, 4 numbers, 5 outbox order, 6 outbox bodies, 7 forms, 8 numbers that were left
-- out, 9… the lists that change
-- ARGV: 1 expected length of the record, 2 request, 3 answer, 4 life of the answer (ms), 5 event, 6 the rest (JSON)
-- Gives {'kept', answer} (this one, or the one this key had before) or {'conflict', what}.
local had = redis.call('GET', KEYS[2])
if had then return {'kept', had} end
if redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[1]) then return {'conflict', 'record'} end
local change = cjson.decode(ARGV[6])
local forms = change.forms
if forms and (redis.call('HGET', KEYS[7], forms.author) or '0') ~= forms.known then return {'conflict', 'forms'} end
local years, was = change.years, nil
local function count_handed_in()
  return redis.call('ZCARD', KEYS[years.mine]) .. ':' .. (redis.call('HGET', KEYS[7], years.author) or '0')
end
local number = change.number
if number then
  local last = tonumber(redis.call('HGET', KEYS[4], number.prefix) or '0')
  if last >= tonumber(number.next) then return {'conflict', 'number'} end
  if last + 1 < tonumber(number.next) then
    redis.call('HSET', KEYS[8], number.prefix .. ':' .. string.format('%d', last + 1), number.last)
  end
  redis.call('HSET', KEYS[4], number.prefix, number.next)
end
if years then was = count_handed_in() end
if forms then redis.call('HINCRBY', KEYS[7], forms.author, 1) end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[5])
for _, listed in ipairs(change.lists) do
  if listed.score then
    redis.call('ZADD', KEYS[listed.key], listed.score, listed.member)
  else
    redis.call('ZREM', KEYS[listed.key], listed.member)
  end
end
-- The lists by year stay complete if they were: what a version without them has written makes the two differ.
if years and (redis.call('HGET', KEYS[years.complete], years.author) or '0:0') == was then
  redis.call('HSET', KEYS[years.complete], years.author, count_handed_in())
end
for _, notice in ipairs(change.notices) do
  redis.call('ZADD', KEYS[5], redis.call('HINCRBY', KEYS[4], 'outbox', 1), notice.id)
  redis.call('HSET', KEYS[6], notice.id, notice.body)
end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
return {'kept', ARGV[3]}
