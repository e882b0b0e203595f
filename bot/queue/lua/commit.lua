-- Write, pop the head, and go on with the next item or let the lane go.
-- ARGV: bell, lane, token, id, lease (ms), more (1 | 0), write …   Answers {lost} | {done} | {next, item}.
local lane, token, id = ARGV[2], ARGV[3], ARGV[4]
local st, mark, known = state(lane), token .. '@' .. id, base .. 'dd:' .. id
local function waiting() return redis.call('EXISTS', inbox(lane)) == 1 end

if redis.call('GET', known) == mark then
  -- The same commit again: the same answer.
  if redis.call('HGET', st, 'token') == token then return {'next', handed(lane)} end
  return {'done'}
end
if not holds(lane, token, id) then return {'lost'} end

apply(7)
redis.call('LPOP', inbox(lane))
redis.call('DEL', base .. 'ck:' .. lane)
-- What it was known by as a duplicate now says how it ended, for as long as it is known.
if redis.call('EXISTS', known) == 1 then
  redis.call('SET', known, mark, 'KEEPTTL')
else
  redis.call('SET', known, mark, 'PX', 600000)
end
redis.call('HSET', st, 'tries', 0)
redis.call('HDEL', st, 'error')

if waiting() and ARGV[6] == '1' then
  redis.call('HINCRBY', st, 'tries', 1)
  extend(lane, ARGV[5])
  return {'next', handed(lane)}
end
redis.call('HDEL', st, 'token', 'owner', 'by')
if waiting() then
  redis.call('ZADD', schedule, whole(now), lane)
  ring()
else
  redis.call('ZREM', schedule, lane)
  redis.call('DEL', st)
end
return {'done'}
