-- Write, pop the head, and go on with the next item or let the lane go.
-- ARGV: bell, lane, token, id, lease (ms), more (1 | 0), writes.   Answers {lost} | {done} | {next, item}.
local lane, token, id = ARGV[2], ARGV[3], ARGV[4]
local st, mark = state(lane), token .. '@' .. id
local function waiting() return redis.call('EXISTS', inbox(lane)) == 1 end

if redis.call('HGET', st, 'done') == mark then
  -- The same commit again: the same answer.
  if redis.call('HGET', st, 'token') == token and waiting() then return {'next', handed(lane)} end
  return {'done'}
end
if not holds(lane, token, id) then return {'lost'} end

apply(ARGV[7])
redis.call('LPOP', inbox(lane))
redis.call('DEL', base .. 'ck:' .. lane)
redis.call('HSET', st, 'done', mark, 'tries', 0)
redis.call('HDEL', st, 'error')

if waiting() and ARGV[6] == '1' then
  redis.call('HINCRBY', st, 'tries', 1)
  extend(lane, ARGV[5])
  return {'next', handed(lane)}
end
redis.call('HDEL', st, 'token', 'owner')
if waiting() then
  redis.call('ZADD', schedule, whole(now), lane)
  ring()
else
  redis.call('ZREM', schedule, lane)
  redis.call('PEXPIRE', st, 600000)
end
return {'done'}
