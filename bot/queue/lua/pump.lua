-- Move due timers into their lanes.   ARGV: bell, most, dedupe (ms).
-- Answers {number of timers moved, score of the lane that is due first, or empty}.
-- The mark makes a timer fire only once when a repeated write sets it again for the same moment.
local due = redis.call('ZRANGEBYSCORE', base .. 't', '-inf', whole(now), 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local moved = 0
for i = 1, #due, 2 do
  local id, raw = due[i], redis.call('HGET', base .. 'td', due[i])
  redis.call('ZREM', base .. 't', id)
  redis.call('HDEL', base .. 'td', id)
  local mark = base .. 'dd:timer:' .. id .. '@' .. whole(tonumber(due[i + 1]))
  if raw and redis.call('SET', mark, '1', 'NX', 'PX', ARGV[3]) then
    local length, start = string.match(raw, '^(%d+)|()')
    local stop = start + tonumber(length)
    if enqueue(string.sub(raw, start, stop - 1), id, string.sub(raw, stop)) then ring() end
    moved = moved + 1
  end
end
return {moved, redis.call('ZRANGEBYSCORE', schedule, '-inf', whole(now), 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''}
