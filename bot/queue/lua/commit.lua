-- Apply writes, pop the head, and go on with the next item or release the lane.
-- ARGV: bell, lane, token, item, written, lease (ms), kind of record, suffix of companion, doubt (ms), more, write …
-- Answers {lost} | {done} | {next, item}.
local lane, token, item = ARGV[2], ARGV[3], ARGV[4]
local st, mark, known = state(lane), token .. '@' .. item, base .. 'dd:' .. string.match(item, '@(.*)')
local function waiting() return redis.call('EXISTS', inbox(lane)) == 1 end

if redis.call('GET', known) == mark then
  -- A repeated commit gets the first answer again.
  if redis.call('HGET', st, 'token') == token then return {'next', handed(lane, 7)} end
  return {'done'}
end
if not holds(lane, token, item, ARGV[5]) then return {'lost'} end

apply(11)  -- none of them refuses (`Lease.commit`)
redis.call('LPOP', inbox(lane))
redis.call('DEL', base .. 'ck:' .. lane)
-- The duplicate mark of the item now names the commit that ended it, for as long as the mark is kept.
local kept_ms = redis.call('PTTL', known)
redis.call('SET', known, mark, 'PX', kept_ms > 0 and kept_ms or 600000)
redis.call('HSET', st, 'tries', 0)
redis.call('HDEL', st, 'error')

if waiting() and ARGV[10] == '1' then
  redis.call('HINCRBY', st, 'tries', 1)
  extend(lane, ARGV[6])
  return {'next', handed(lane, 7)}
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
