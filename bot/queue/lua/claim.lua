-- Take lanes that need attention: ready, backed off long enough, or held by a process whose lease ran out.
-- ARGV: bell, nonce, owner, lease (ms), room, kind of record, suffix of companion, doubt (ms).
-- Answers the taken lanes, each as `handed` describes it.
local mark = base .. 'cl:' .. ARGV[2]
local before = redis.call('GET', mark)
local taken, out = {}, {}
if before then
  for _, pair in ipairs(cjson.decode(before)) do
    if redis.call('HGET', state(pair[1]), 'token') == pair[2] then out[#out + 1] = handed(pair[1], 6) end
  end
  return out
end
for _, lane in ipairs(redis.call('ZRANGEBYSCORE', schedule, '-inf', whole(now), 'LIMIT', 0, ARGV[5])) do
  if redis.call('EXISTS', inbox(lane)) == 0 then
    redis.call('ZREM', schedule, lane)
    redis.call('DEL', state(lane))
  else
    taken[#taken + 1] = {lane, take(lane, ARGV[3], ARGV[2], ARGV[4])}
    out[#out + 1] = handed(lane, 6)
  end
end
if #taken > 0 then redis.call('SET', mark, cjson.encode(taken), 'PX', ARGV[4]) end
return out
